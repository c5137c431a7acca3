/* SPDX-License-Identifier: MIT
 *
 * Allocates and frees at random, and prints what is allocated at some moments, by call site:
 *
 *   traced SEED EVENTS MOMENTS [threads:N] [fork] [kill]
 *
 * Before each moment it makes EVENTS calls, in N threads if that is given. A moment is a line
 * "at NS SMALL_BYTES SMALL_BLOCKS LARGE_BYTES LARGE_BLOCKS" with CLOCK_REALTIME in nanoseconds;
 * nothing happens for 30 ms around it. `fork`: a child does the same with other numbers, and its
 * lines begin with "child". `kill`: the process is killed while it allocates.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cu.h"

#define NOINLINE __attribute__((noinline))
#define SLOTS 64
#define THREADS_MAX 8

struct worker {
	unsigned int seed;
	int events;
	CUdeviceptr address[SLOTS];
	size_t bytes[SLOTS];
	size_t sum[2], count[2]; /* small, large */
};

static struct worker workers[THREADS_MAX];
static int threads = 1;
static CUcontext context;

CUresult cuCtxGetCurrent(CUcontext *context);

NOINLINE static void small(CUdeviceptr *address, size_t bytes)
{
	must(cuMemAlloc_v2(address, bytes), "small"); /* @small */
}

NOINLINE static void large(CUdeviceptr *address, size_t bytes)
{
	must(cuMemAlloc_v2(address, bytes), "large"); /* @large */
}

static void change(struct worker *worker)
{
	unsigned int slot = (unsigned int)rand_r(&worker->seed) % SLOTS;
	int is_large = slot % 4 == 0;

	if (worker->address[slot]) {
		must(cuMemFree_v2(worker->address[slot]), "free");
		worker->address[slot] = 0;
		worker->sum[is_large] -= worker->bytes[slot];
		worker->count[is_large]--;
		return;
	}
	worker->bytes[slot] = (unsigned int)rand_r(&worker->seed) % 5000 + 1;
	if (is_large)
		large(&worker->address[slot], worker->bytes[slot] += 1 << 20);
	else
		small(&worker->address[slot], worker->bytes[slot]);
	worker->sum[is_large] += worker->bytes[slot];
	worker->count[is_large]++;
}

static void *work(void *data)
{
	struct worker *worker = data;

	must(cuCtxSetCurrent(context), "current");
	for (int i = 0; i < worker->events; i++)
		change(worker);
	return NULL;
}

static void work_all(int events)
{
	pthread_t thread[THREADS_MAX];

	for (int i = 0; i < threads; i++) {
		workers[i].events = events;
		pthread_create(&thread[i], NULL, work, &workers[i]);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
}

static void show_moment(const char *who)
{
	const struct timespec pause = { 0, 15000000 };
	size_t sum[2] = { 0, 0 }, count[2] = { 0, 0 };
	struct timespec now;

	for (int i = 0; i < threads; i++)
		for (int kind = 0; kind < 2; kind++) {
			sum[kind] += workers[i].sum[kind];
			count[kind] += workers[i].count[kind];
		}
	nanosleep(&pause, NULL);
	clock_gettime(CLOCK_REALTIME, &now);
	printf("%sat %lld%09ld %zu %zu %zu %zu\n", who, (long long)now.tv_sec, now.tv_nsec, sum[0],
	       count[0], sum[1], count[1]);
	fflush(stdout);
	nanosleep(&pause, NULL);
}

static void *kill_soon(void *unused)
{
	usleep(20000);
	raise(SIGKILL);
	return unused;
}

int main(int argc, char **argv)
{
	int events = atoi(argv[2]), moments = atoi(argv[3]), forks = 0, kills = 0, is_child = 0;
	pthread_t killer;

	for (int i = 4; i < argc; i++) {
		if (strncmp(argv[i], "threads:", 8) == 0)
			threads = atoi(argv[i] + 8);
		forks |= strcmp(argv[i], "fork") == 0;
		kills |= strcmp(argv[i], "kill") == 0;
	}
	is_child = forks && fork() == 0;
	begin();
	must(cuCtxGetCurrent(&context), "current");
	for (int i = 0; i < threads; i++)
		workers[i].seed = (unsigned int)(atoi(argv[1]) + i + 100 * is_child);
	for (int i = 0; i < moments; i++) {
		work_all(events);
		show_moment(is_child ? "child " : "");
	}
	if (forks && !is_child)
		wait(NULL);
	if (kills) {
		pthread_create(&killer, NULL, kill_soon, NULL);
		work_all(1 << 30);
	}
	return 0;
}
