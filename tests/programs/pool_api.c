/* SPDX-License-Identifier: MIT
 *
 * What gpuleak.h promises: stories of a program that asks the pool, and of one that is not
 * preloaded. Linked to nothing of gpuleak's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cu.h"
#include "gpuleak.h"

#define MIB ((size_t)1 << 20)

static void start(void)
{
	CUcontext context;

	must(cuInit(0), "cuInit");
	must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate_v2");
}

/* Allocates and frees a block of BYTES. */
static void pair(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "cuMemAlloc_v2");
	must(cuMemFree_v2(address), "cuMemFree_v2");
}

static void print_stats(const char *when)
{
	struct gpuleak_pool_stats stats = { .size = sizeof(stats) };

	errno = 0;
	if (gpuleak_pool_stats(&stats) < 0) {
		printf("%s: %s\n", when, strerror(errno));
		return;
	}
	printf("%s: mode %" PRIu64 " off %" PRIu64 " used %" PRIu64 " cached %" PRIu64
	       " pending %" PRIu64 " reserved %" PRIu64 " hits %" PRIu64 " native %" PRIu64
	       " errno %d\n", when, stats.mode, stats.turned_off, stats.used_bytes / MIB,
	       stats.cached_bytes / MIB, stats.pending_bytes / MIB, stats.reserved_bytes / MIB,
	       stats.hits, stats.native_allocations, errno);
}

static int main_absent(void)
{
	printf("%d %d\n", gpuleak_pool_trim != NULL, gpuleak_pool_stats != NULL);
	return 0;
}

static int main_give_back(void)
{
	CUdeviceptr held;

	print_stats("before");
	start();
	must(cuMemAlloc_v2(&held, 2 * MIB), "cuMemAlloc_v2");
	pair(4 * MIB);
	print_stats("freed");
	errno = EXDEV;
	printf("trimmed %zu", gpuleak_pool_trim() / MIB);
	printf(" errno %s\n", errno == EXDEV ? "kept" : "changed");
	print_stats("trimmed");
	printf("again %zu\n", gpuleak_pool_trim());
	pair(4 * MIB);
	pair(4 * MIB);
	print_stats("reused");
	must(cuMemFree_v2(held), "cuMemFree_v2");
	return 0;
}

static void print_tickets(const char *when)
{
	struct gpuleak_pool_stats stats = { .size = sizeof(stats) };

	if (gpuleak_pool_stats(&stats) < 0)
		return;
	printf("%s: pending %" PRIu64 " reserved %" PRIu64 " hits %" PRIu64 " native %" PRIu64
	       " frees %" PRIu64 " tickets %" PRIu64 "\n", when, stats.pending_bytes / 4096,
	       stats.reserved_bytes / 4096, stats.hits, stats.native_allocations, stats.frees,
	       stats.tickets);
}

/* Work is submitted before each free, as in a program's main loop. */
static int main_loop(void)
{
	CUdeviceptr address;

	start();
	for (int i = 0; i <= 20000; i++) {
		if (i == 1000 || i == 20000)
			print_tickets(i == 1000 ? "soon" : "later");
		must(cuMemAlloc_v2(&address, 4096), "cuMemAlloc_v2");
		must(cuMemsetD8Async(address, 0, 4096, NULL), "cuMemsetD8Async");
		must(cuMemFree_v2(address), "cuMemFree_v2");
	}
	must(cuCtxSynchronize(), "cuCtxSynchronize");
	print_tickets("synchronized");
	return 0;
}

/* Blocks freed behind work, all in one go, and wanted again before anything else is submitted. */
static int main_rounds(void)
{
	enum { ROUNDS = 200, BLOCKS = 4 };
	CUdeviceptr at[BLOCKS], other;

	start();
	must(cuMemAlloc_v2(&other, 4096), "cuMemAlloc_v2");
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < BLOCKS; i++)
			must(cuMemAlloc_v2(&at[i], 4096), "cuMemAlloc_v2");
		print_tickets("wanted");
		must(cuMemsetD8Async(other, 0, 4096, NULL), "cuMemsetD8Async");
		for (int i = 0; i < BLOCKS; i++)
			must(cuMemFree_v2(at[i]), "cuMemFree_v2");
		print_tickets("freed");
	}
	return 0;
}

/* The same once somebody may submit work that the pool does not see. */
static int main_rounds_unseen(void)
{
	if (!dlsym(RTLD_DEFAULT, "cuMemMapArrayAsync"))
		return 1;
	return main_rounds();
}

static CUdeviceptr many[140000];

static void take_many(int from, int to, size_t bytes)
{
	for (int i = from; i < to; i++)
		must(cuMemAlloc_v2(&many[i], bytes), "cuMemAlloc_v2");
}

static void give_many(int from, int to)
{
	for (int i = from; i < to; i++)
		must(cuMemFree_v2(many[i]), "cuMemFree_v2");
}

/* More freed blocks than the table of blocks remembers, and all of them handed out again: what the
 * pool knows of an address may be of before the table forgot it, and had another there. */
static int main_forgotten(void)
{
	enum { BLOCKS = 100000, SOME = 120000, ALL = 140000 };

	start();
	for (int round = 0; round < 2; round++) { /* by the driver, and by the pool */
		take_many(0, BLOCKS, 512);
		give_many(0, BLOCKS);
	}
	take_many(BLOCKS, SOME, 1024); /* new to the table, before and after the others come back */
	print_tickets("some");
	take_many(0, BLOCKS, 512);
	take_many(SOME, ALL, 2048);
	print_tickets("all");
	give_many(1, ALL - 1);
	printf("again: %d\n", cuMemFree_v2(many[ALL - 2]));
	return 0;
}

enum { RACES = 4000 };
static CUdeviceptr raced;
static pthread_barrier_t line;
static int won[2];

static void *race(void *argument)
{
	int me = *(int *)argument;

	for (int i = 0; i < RACES; i++) {
		if (me == 0 && i % 2 && gpuleak_pool_trim)
			gpuleak_pool_trim(); /* the next is the driver's */
		if (me == 0)
			must(cuMemAlloc_v2(&raced, 4096), "cuMemAlloc_v2");
		pthread_barrier_wait(&line);
		won[me] += cuMemFree_v2(raced) == 0;
		pthread_barrier_wait(&line);
	}
	return NULL;
}

/* Two threads free each block at one moment: one of them may. */
static int main_raced(void)
{
	int number[2] = { 0, 1 };
	CUdeviceptr first, second;
	pthread_t thread;

	start();
	must(pthread_barrier_init(&line, NULL, 2), "pthread_barrier_init");
	must(pthread_create(&thread, NULL, race, &number[1]), "pthread_create");
	race(&number[0]);
	pthread_join(thread, NULL);
	must(cuMemAlloc_v2(&first, 4096), "cuMemAlloc_v2");
	must(cuMemAlloc_v2(&second, 4096), "cuMemAlloc_v2");
	printf("freed %d of %d, then %s\n", won[0] + won[1], RACES,
	       first == second ? "one block twice" : "two blocks");
	must(cuMemFree_v2(first), "cuMemFree_v2");
	must(cuMemFree_v2(second), "cuMemFree_v2");
	return 0;
}

static void print_answer(const char *what, struct gpuleak_pool_stats *stats)
{
	int answer;

	errno = 0;
	answer = gpuleak_pool_stats(stats);
	printf("%s: %d %s\n", what, answer, strerror(errno));
}

static int main_wrong(void)
{
	struct gpuleak_pool_stats stats = { .size = sizeof(stats) - 1 };
	struct {
		struct gpuleak_pool_stats known;
		uint64_t later[4];
	} larger;

	start();
	pair(MIB);
	print_answer("short", &stats);
	print_answer("NULL", NULL);
	stats.size = UINT64_MAX;
	print_answer("unset", &stats);
	memset(&larger, 0xff, sizeof(larger));
	larger.known.size = sizeof(larger);
	print_answer("larger", &larger.known);
	printf("known %d later %" PRIu64 "\n", larger.known.size == sizeof(stats),
	       larger.later[3]);
	return 0;
}

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
	caught = number;
}

static int main_signal(void)
{
	start();
	pair(4 * MIB);
	raise(SIGUSR1);
	print_stats("raised");
	pair(2 * MIB); /* its allocation gives back what was kept */
	print_stats("next call");
	return 0;
}

/* Makes no GPU call any more. */
static int main_signal_idle(void)
{
	struct gpuleak_pool_stats stats = { .size = sizeof(stats), .reserved_bytes = 1 };

	start();
	pair(4 * MIB);
	raise(SIGUSR1);
	for (int i = 0; i < 300 && stats.reserved_bytes; i++) {
		stats.size = sizeof(stats);
		usleep(100000);
		gpuleak_pool_stats(&stats);
	}
	print_stats("idle");
	return 0;
}

/* The application's own handler stays; one that it installs later replaces ours. */
static int main_handled(void)
{
	signal(SIGUSR1, on_signal);
	start();
	pair(4 * MIB);
	raise(SIGUSR1);
	printf("caught %d\n", (int)caught);
	return 0;
}

static int main_handled_later(void)
{
	struct sigaction before;

	start();
	sigaction(SIGUSR1, NULL, &before);
	printf("ours %d restarts %d\n", before.sa_handler != SIG_DFL,
	       (before.sa_flags & SA_RESTART) != 0);
	signal(SIGUSR1, on_signal);
	pair(4 * MIB);
	raise(SIGUSR1);
	printf("caught %d\n", (int)caught);
	return 0;
}

/* Contexts of a device, and sorts of pinned memory, are one pool in the figures. */
static int main_contexts(void)
{
	CUdeviceptr first, second;
	void *pinned, *portable;
	CUcontext context;

	start();
	must(cuMemAlloc_v2(&first, 2 * MIB), "cuMemAlloc_v2");
	must(cuMemAllocHost_v2(&pinned, 2 * MIB), "cuMemAllocHost_v2");
	must(cuMemHostAlloc(&portable, 4 * MIB, 1), "cuMemHostAlloc");
	must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate_v2");
	must(cuMemAlloc_v2(&second, 6 * MIB), "cuMemAlloc_v2");
	pair(10 * MIB);
	print_stats("two");
	must(cuCtxDestroy_v2(context), "cuCtxDestroy_v2");
	print_stats("one");
	must(cuMemFreeHost(portable), "cuMemFreeHost");
	must(cuMemFreeHost(pinned), "cuMemFreeHost");
	must(cuMemFree_v2(first), "cuMemFree_v2");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*main)(void);
	} stories[] = {
		{ "absent", main_absent }, { "give-back", main_give_back }, { "wrong", main_wrong },
		{ "loop", main_loop }, { "raced", main_raced }, { "forgotten", main_forgotten },
		{ "rounds", main_rounds }, { "rounds-unseen", main_rounds_unseen },
		{ "contexts", main_contexts }, { "signal", main_signal },
		{ "signal-idle", main_signal_idle }, { "handled", main_handled },
		{ "handled-later", main_handled_later },
	};

	for (size_t i = 0; argc == 2 && i < sizeof(stories) / sizeof(stories[0]); i++)
		if (strcmp(stories[i].name, argv[1]) == 0)
			return stories[i].main();
	return 2;
}
