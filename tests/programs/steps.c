/* SPDX-License-Identifier: MIT
 *
 * A service that leaks beside a cache that warms up, step by step; what else a process may do
 * around steps and reports on demand. Linked to nothing of gpuleak's.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cu.h"
#include "gpuleak.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static void leak(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "cuMemAlloc_v2"); /* @leak */
}

/* Holds one block for each of its slots, for good. */
static void cache(unsigned int slot)
{
	static CUdeviceptr slots[64];

	if (!slots[slot % 64])
		must(cuMemAlloc_v2(&slots[slot % 64], 8 * MIB), "cuMemAlloc_v2"); /* @cache */
}

/* What one request needs, and gives back. */
static void request(unsigned int number)
{
	static CUdeviceptr kept;
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, MIB), "cuMemAlloc_v2");
	must(cuMemFree_v2(address), "cuMemFree_v2");
	if (number % 2) /* now more, now less */
		must(cuMemAlloc_v2(&kept, 64 * MIB), "cuMemAlloc_v2");
	else if (kept)
		must(cuMemFree_v2(kept), "cuMemFree_v2");
}

/* The COUNTth piece of work: 1 MiB is lost, the cache fills until it is full. */
static void work(unsigned int count)
{
	static unsigned int slot;
	unsigned int more = count < 3 ? 4u >> count : 0;

	request(count);
	while (more--)
		cache(slot++);
	for (int i = 0; i < 4; i++)
		leak(256 * KIB);
}

static void say(const char *line)
{
	puts(line);
	fflush(stdout);
}

static void nap(long ms)
{
	struct timespec left = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

/* COUNT pieces of work, a step after each. */
static int main_call(int count)
{
	char label[64];

	printf("%u", gpuleak_step ? gpuleak_step("too early") : 0);
	begin();
	for (int i = 0; i < count; i++) {
		work((unsigned int)i);
		snprintf(label, sizeof(label), "request %d, of which this is a long name", i + 1);
		if (gpuleak_step) {
			errno = EXDEV;
			printf(" %u%s", gpuleak_step(label), errno == EXDEV ? "" : " errno");
		}
	}
	putchar('\n');
	return 0;
}

/* At each step, two calls of one line allocate. */
static int main_line(int count)
{
	begin();
	for (int i = 0; i < count; i++) {
		leak(MIB), leak(2 * MIB);
		if (gpuleak_step)
			gpuleak_step(NULL);
	}
	return 0;
}

/* Marks by the signal that the process sends itself. */
static int main_signal(int count)
{
	begin();
	for (int i = 0; i < count; i++) {
		work((unsigned int)i);
		kill(getpid(), SIGUSR2);
		nap(100); /* the helper's turn */
	}
	return 0;
}

/* Works until a line comes and rests until "end" does; marks nothing itself. */
static int main_serve(int every_ms)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char line[16];

	begin();
	say("ready");
	for (unsigned int i = 0; !in.revents; i++) {
		work(i);
		poll(&in, 1, every_ms);
	}
	while (fgets(line, sizeof(line), stdin))
		if (strcmp(line, "end\n") == 0)
			return 0;
	return 1;
}

/* Makes no GPU call any more. "step" and "report" come by signal or by call. */
static int main_idle(int unused)
{
	char line[16];

	(void)unused;
	begin();
	leak(4 * MIB);
	say("ready");
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0) {
		if (strcmp(line, "report\n") == 0) {
			int answer;

			errno = 0;
			answer = gpuleak_report();
			printf("%d %s\n", answer, strerror(errno));
			fflush(stdout);
		}
	}
	return 0;
}

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
	caught = number;
}

static int main_handled(int later)
{
	if (!later)
		signal(SIGUSR2, on_signal);
	begin();
	leak(KIB);
	if (later)
		signal(SIGUSR2, on_signal);
	raise(SIGUSR2);
	printf("caught %d\n", (int)caught);
	return 0;
}

static void wait_for(pid_t child)
{
	int status;

	waitpid(child, &status, 0);
	printf("child ended with %d\n", status);
	fflush(stdout);
}

/* A child has no helper, no steps and no report, until it makes a GPU call of its own. */
static int main_fork(int count)
{
	pid_t child = fork(); /* before the driver is in use: it may use it */

	if (child != 0)
		wait_for(child);
	begin();
	for (int i = 0; i < count + (child == 0); i++) {
		leak(MIB);
		kill(getpid(), SIGUSR2);
		nap(100);
	}
	if (child == 0)
		return 0;
	child = fork();
	if (child == 0) {
		int report;

		kill(getpid(), SIGUSR2); /* nobody's, and not deadly */
		report = gpuleak_report();
		printf("step %u, report %d %s\n", gpuleak_step(NULL), report,
		       report < 0 && errno == ENODATA ? "ENODATA" : "?");
		fflush(stdout);
		_exit(0);
	}
	wait_for(child);
	return 0;
}

static void *last_words(void *unused)
{
	nap(200);
	say("worker ends");
	return unused;
}

/* The first thread ends by itself, others after it: then so does the process. */
static int main_threads(int unused)
{
	pthread_t thread;

	(void)unused;
	begin();
	leak(KIB);
	pthread_create(&thread, NULL, last_words, NULL);
	pthread_detach(thread);
	pthread_exit(NULL);
}

/* Threads that allocate and free while steps are marked; at each step of the first thread
 * nobody else has anything that stays. */
static void *churn(void *unused)
{
	begin();
	for (int i = 0; i < 20000; i++) {
		CUdeviceptr address;

		must(cuMemAlloc_v2(&address, KIB), "cuMemAlloc_v2");
		must(cuMemFree_v2(address), "cuMemFree_v2");
	}
	return unused;
}

static int main_churn(int count)
{
	pthread_t threads[3];

	begin();
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, churn, NULL);
	for (int i = 0; i <= count; i++) {
		for (int n = 0; i == count && n < 3; n++)
			pthread_join(threads[n], NULL);
		leak(MIB);
		gpuleak_step(i == count ? "quiet" : NULL);
	}
	return 0;
}

static CUdeviceptr allocate(size_t size)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, size), "cuMemAlloc_v2");
	return address;
}

static void release(CUdeviceptr address)
{
	must(cuMemFree_v2(address), "cuMemFree_v2");
}

/* Ends the step of the first thread, as the process has only one. */
static void *evaluate(void *unused)
{
	begin();
	gpuleak_step_named("evaluate");
	release(allocate(32 * MIB));
	return unused;
}

/* The first thread trains; another one evaluates. The last step does not end. */
static int main_named(int count)
{
	CUdeviceptr kept, block;
	uint64_t peak;
	pthread_t thread;

	printf("%u", gpuleak_step_named("warm-up")); /* begins with the first GPU call */
	begin();
	kept = allocate(MIB);
	release(allocate(2 * MIB));
	kill(getpid(), SIGUSR2); /* marks a step, but ends none */
	nap(500);
	gpuleak_ignore(allocate(MIB));
	for (int i = 0; i < count; i++) {
		printf(" %u", gpuleak_step_named("train"));
		gpuleak_peak(1, &peak);
		block = allocate((size_t)(4 + i) * MIB);
		gpuleak_peak(1, &peak);
		release(block);
	}
	pthread_create(&thread, NULL, evaluate, NULL);
	pthread_join(thread, NULL);
	release(allocate(64 * KIB)); /* still in the step of the other thread */
	gpuleak_step_named("free");
	release(kept);
	gpuleak_step("a label");
	release(allocate(8 * MIB)); /* in no named step */
	gpuleak_step_named("\xff\x1b<b>\n\"open\", which is longer than "
			   "there is room for in a record of a ledger");
	allocate(16 * MIB);
	release(allocate(16 * MIB));
	putchar('\n');
	return 0;
}

/* COUNT steps of one name, then 150 names. */
static int main_names(int count)
{
	char name[64];

	begin();
	for (int i = 0; i < count; i++) {
		gpuleak_step_named("same");
		release(allocate(KIB));
	}
	for (int i = 0; i < 150; i++) {
		snprintf(name, sizeof(name), "name %d", i);
		gpuleak_step_named(name);
		release(allocate((size_t)(i + 1) * KIB));
	}
	gpuleak_step_named("same"); /* a name that has a record keeps it */
	gpuleak_step_named("");
	return 0;
}

/* Is killed in a step. */
static int main_killed(int unused)
{
	(void)unused;
	begin();
	gpuleak_step_named("killed");
	release(allocate(3 * MIB));
	allocate(MIB);
	kill(getpid(), SIGKILL);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*main)(int count);
	} stories[] = {
		{ "call", main_call },       { "signal", main_signal }, { "serve", main_serve },
		{ "idle", main_idle },       { "fork", main_fork },     { "churn", main_churn },
		{ "handled", main_handled }, { "threads", main_threads },
		{ "named", main_named },     { "names", main_names },
		{ "killed", main_killed },   { "line", main_line },
	};

	for (size_t i = 0; argc == 3 && i < sizeof(stories) / sizeof(stories[0]); i++)
		if (strcmp(stories[i].name, argv[1]) == 0)
			return stories[i].main(atoi(argv[2]));
	return 2;
}
