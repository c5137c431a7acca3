/* SPDX-License-Identifier: MIT
 *
 * Threads that take and give back blocks as fast as they can, so that every address goes
 * from hand to hand, also while main forks or leaves; blocks that are allocated by one
 * thread and freed by another; threads that come and go; and one thread alone, whose peak
 * can be counted.
 */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cu.h"

enum { THREADS = 32, ROUNDS = 2000, HANDED_OVER = 100000, QUEUE = 64 };

static CUcontext primary;

static void *storm(void *unused)
{
	CUdeviceptr blocks[4];

	must(cuCtxSetCurrent(primary), "set current");
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < 4; i++)
			must(cuMemAlloc_v2(&blocks[i], 512), "alloc"); /* @storm */
		for (int i = 0; i < 4; i++)
			must(cuMemFree_v2(blocks[i]), "free");
	}
	must(cuMemAlloc_v2(&blocks[0], 100), "alloc"); /* @storm_lost */
	return unused;
}

static void run_storm(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, storm, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static CUdeviceptr queue[QUEUE];
static int queued;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void *consumer(void *unused)
{
	must(cuCtxSetCurrent(primary), "set current");
	for (int i = 0; i < HANDED_OVER; i++) {
		CUdeviceptr block;

		pthread_mutex_lock(&lock);
		while (queued == 0)
			pthread_cond_wait(&changed, &lock);
		block = queue[--queued];
		pthread_cond_signal(&changed);
		pthread_mutex_unlock(&lock);
		must(cuMemFree_v2(block), "free");
	}
	return unused;
}

static void hand_over(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, consumer, NULL);
	for (int i = 0; i < HANDED_OVER; i++) {
		CUdeviceptr block;

		must(cuMemAlloc_v2(&block, 1000), "alloc");
		pthread_mutex_lock(&lock);
		while (queued == QUEUE)
			pthread_cond_wait(&changed, &lock);
		queue[queued++] = block;
		pthread_cond_signal(&changed);
		pthread_mutex_unlock(&lock);
	}
	pthread_join(thread, NULL);
}

/* A pyramid: 1, 2 ... 100 blocks held, twice; never more than 100 * 300 bytes. */
static void climb(void)
{
	CUdeviceptr blocks[100];

	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < 100; i++)
			must(cuMemAlloc_v2(&blocks[i], 300 - 100 * turn), "alloc");
		for (int i = 0; i < 100; i++)
			must(cuMemFree_v2(blocks[i]), "free");
	}
}

/* Each thread leaves a block to its successor, which frees it. */
static void *passing(void *block)
{
	CUdeviceptr *mine = block;

	must(cuCtxSetCurrent(primary), "set current");
	if (*mine)
		must(cuMemFree_v2(*mine), "free");
	must(cuMemAlloc_v2(mine, 128), "alloc"); /* @passing */
	return NULL;
}

static void come_and_go(void)
{
	CUdeviceptr block = 0;
	pthread_t thread;

	for (int i = 0; i < 2000; i++) {
		pthread_create(&thread, NULL, passing, &block);
		pthread_join(thread, NULL);
	}
}

static _Atomic int stop;

/* Until it is told to stop, or the driver has gone. */
static void *churn(void *ret_pairs)
{
	CUdeviceptr block;

	if (cuCtxSetCurrent(primary) != 0)
		return NULL;
	while (!stop && cuMemAlloc_v2(&block, 256) == 0 && cuMemFree_v2(block) == 0)
		++*(long *)ret_pairs;
	return NULL;
}

/* Forks while other threads are inside allocations; each child is one that must end. */
static void fork_in_storm(const char *program)
{
	pthread_t threads[4];
	long pairs[4] = { 0 }, sum = 0;
	int status, ended = 0;

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, churn, &pairs[i]);
	for (int i = 0; i < 200; i++) {
		pid_t child = fork();

		if (child == 0 && i % 2) {
			execl("/bin/true", "true", NULL);
			_exit(1);
		}
		if (child == 0)
			_exit(0);
		waitpid(child, &status, 0);
		ended += status == 0;
	}
	stop = 1;
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		sum += pairs[i];
	}
	fprintf(stderr, "%ld pairs by %s\n", sum, program);
	printf("%d children ended\n", ended);
}

static void leave_in_storm(void)
{
	static long pairs[8];
	pthread_t thread;

	for (int i = 0; i < 8; i++)
		pthread_create(&thread, NULL, churn, &pairs[i]);
	usleep(20000);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	begin();
	must(cuDevicePrimaryCtxRetain(&primary, 0), "retain");
	if (strcmp(what, "storm") == 0)
		run_storm();
	else if (strcmp(what, "hand") == 0)
		hand_over();
	else if (strcmp(what, "go") == 0)
		come_and_go();
	else if (strcmp(what, "fork") == 0)
		fork_in_storm(argv[0]);
	else if (strcmp(what, "leave") == 0)
		leave_in_storm();
	else
		climb();
	printf("done\n");
	return 0;
}
