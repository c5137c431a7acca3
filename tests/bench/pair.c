/* SPDX-License-Identifier: MIT
 *
 * Cost of a cuMemAlloc/cuMemFree pair below a stack of a given depth, in a given number
 * of threads. Prints one number: ns per pair and thread. Run with and without the preload;
 * run-bench.sh does both and compares.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench_range.h"

typedef unsigned long long CUdeviceptr;
int cuInit(unsigned int flags);
int cuCtxCreate_v2(void **context, unsigned int flags, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(CUdeviceptr *p, size_t bytes);
int cuMemFree_v2(CUdeviceptr p);
int cuEventCreate(void **event, unsigned int flags);
int cuEventDestroy_v2(void *event);

static void *context;
static long pairs = 1000000;
static int depth = 20;
static int kept; /* blocks that stay live per thread */
static int vary; /* 1: never twice from the same stack */
static int events; /* 1: pairs of cuEventCreate and cuEventDestroy */
static pthread_barrier_t start_line;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static __attribute__((noinline)) void one_pair(void)
{
	CUdeviceptr p;
	void *event;

	if (events) {
		if (cuEventCreate(&event, 2) || cuEventDestroy_v2(event))
			abort();
	} else if (cuMemAlloc_v2(&p, 65536) || cuMemFree_v2(p)) {
		abort();
	}
}

/* Each pair from another place of the stack, so that no stack is met again soon. */
static __attribute__((noinline)) void elsewhere(size_t bytes)
{
	volatile char *room = __builtin_alloca(bytes);

	room[0] = 1;
	one_pair();
	__asm__ volatile("");
}

static __attribute__((noinline)) void churn(long n)
{
	for (long i = 0; i < n; i++) {
		if (vary)
			elsewhere((size_t)(i % 4099 + 1) * 16);
		else
			one_pair();
	}
}

/* Frames of a real program: calls that return, so no tail call folds them. */
static __attribute__((noinline)) long below(int frames, long n)
{
	long r = 0;

	if (frames > 0)
		r = below(frames - 1, n) + 1;
	else
		churn(n);
	__asm__ volatile("" : "+r"(r));
	return r;
}

static void *work(void *ret_ns)
{
	double start;

	if (cuCtxSetCurrent(context))
		abort();
	bench_range();
	for (int i = 0; i < kept; i++) {
		CUdeviceptr p;

		if (cuMemAlloc_v2(&p, 4096))
			abort();
	}
	below(depth, 1000);
	pthread_barrier_wait(&start_line);
	start = now_ns();
	below(depth, pairs);
	*(double *)ret_ns = (now_ns() - start) / (double)pairs;
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t thread[256];
	double ns[256], sum = 0;

	if (argc > 2)
		depth = atoi(argv[2]);
	if (argc > 3)
		pairs = atol(argv[3]);
	if (argc > 4)
		kept = atoi(argv[4]);
	if (argc > 5)
		vary = atoi(argv[5]);
	if (argc > 6)
		events = atoi(argv[6]);
	/* one_pair, elsewhere, churn, below's last, work, start_thread and clone3 count too. */
	depth -= 6 + vary;
	if (threads < 1 || threads > 256 || cuInit(0) || cuCtxCreate_v2(&context, 0, 0))
		return 1;
	pthread_barrier_init(&start_line, NULL, (unsigned int)threads);
	for (int i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, work, &ns[i]);
	for (int i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		sum += ns[i];
	}
	printf("%.1f\n", sum / threads);
	return 0;
}
