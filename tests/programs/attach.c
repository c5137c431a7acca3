/* SPDX-License-Identifier: MIT
 *
 * A service with four threads that reads lines. "work N": each thread serves N requests, then the
 * numbers of blocks are printed that were allocated and freed meanwhile. A request allocates and
 * frees a block; the first thread keeps another one of each request. "end": frees what was kept and
 * prints a sum over all requests.
 */
#include "cu.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define KIB ((size_t)1 << 10)
#define KEPT_MAX 100000

static CUcontext context;
static CUdeviceptr kept[KEPT_MAX];
static size_t kept_count;
static long allocated, freed;
static unsigned long sum;
static pthread_barrier_t started, done;
static int requests; /* 0: end */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr ret;

	must(cuMemAlloc_v2(&ret, bytes), "cuMemAlloc_v2");
	__atomic_add_fetch(&allocated, 1, __ATOMIC_RELAXED);
	return ret;
}

static void release(CUdeviceptr block)
{
	must(cuMemFree_v2(block), "cuMemFree_v2");
	__atomic_add_fetch(&freed, 1, __ATOMIC_RELAXED);
}

static void remember(void)
{
	kept[kept_count++] = allocate(64 * KIB); /* @remember */
}

static void serve(int thread)
{
	CUdeviceptr scratch = allocate(4 * KIB); /* @scratch */

	pthread_mutex_lock(&lock);
	sum = sum * 31 + 7;
	pthread_mutex_unlock(&lock);
	if (thread == 0 && kept_count < KEPT_MAX)
		remember(); /* @serve */
	usleep(1000);
	release(scratch);
}

static void *work(void *number)
{
	const int thread = *(int *)number;

	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	for (;;) {
		pthread_barrier_wait(&started);
		if (!requests)
			return NULL;
		for (int i = 0; i < requests; i++)
			serve(thread);
		pthread_barrier_wait(&done);
	}
}

static void serve_requests(int number)
{
	requests = number;
	allocated = freed = 0;
	pthread_barrier_wait(&started);
	if (!number)
		return;
	pthread_barrier_wait(&done);
	printf("%ld %ld\n", allocated, freed);
	fflush(stdout);
}

int main(void)
{
	pthread_t threads[THREADS];
	int numbers[THREADS], number;
	char line[64];

	must(cuInit(0), "cuInit");
	must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate_v2");
	pthread_barrier_init(&started, NULL, THREADS + 1);
	pthread_barrier_init(&done, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		pthread_create(&threads[i], NULL, work, &numbers[i]);
	}
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "end\n") != 0)
		if (sscanf(line, "work %d", &number) == 1)
			serve_requests(number);
	serve_requests(0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	while (kept_count)
		must(cuMemFree_v2(kept[--kept_count]), "cuMemFree_v2");
	printf("sum %lu\n", sum);
	return 7;
}
