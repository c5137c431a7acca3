/* SPDX-License-Identifier: MIT
 *
 * Threads that take and give back blocks as fast as they can, so that every address goes
 * from hand to hand; blocks that are allocated by one thread and freed by another; and one
 * thread alone, whose peak can be counted.
 */
#include <pthread.h>
#include <string.h>

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

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	begin();
	must(cuDevicePrimaryCtxRetain(&primary, 0), "retain");
	if (strcmp(what, "storm") == 0)
		run_storm();
	else if (strcmp(what, "hand") == 0)
		hand_over();
	else
		climb();
	printf("done\n");
	return 0;
}
