/* SPDX-License-Identifier: MIT
 *
 * Many live blocks from many places: COUNT blocks at 1,024 distinct stacks, all leaked.
 * Prints how much the process grew per block, in bytes, the driver's share included:
 * run with and without the preload, the difference is the tracer's. With one more argument it
 * then does what lines on standard input ask for, for top_cost.py: "pairs MS", "step".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpuleak.h"

typedef unsigned long long CUdeviceptr;
int cuInit(unsigned int flags);
int cuCtxCreate_v2(void **context, unsigned int flags, int device);
int cuMemAlloc_v2(CUdeviceptr *p, size_t bytes);
int cuMemFree_v2(CUdeviceptr p);

static long resident_kib(void)
{
	char line[256];
	long kib = 0;
	FILE *file = fopen("/proc/self/status", "r");

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib;
}

static __attribute__((noinline)) void make(void)
{
	CUdeviceptr p;

	if (cuMemAlloc_v2(&p, 512))
		abort();
	__asm__ volatile("");
}

static void one(unsigned int path, int depth);

static __attribute__((noinline)) void left(unsigned int path, int depth)
{
	one(path, depth);
	__asm__ volatile("");
}

static __attribute__((noinline)) void right(unsigned int path, int depth)
{
	one(path, depth);
	__asm__ volatile("");
}

/* Ten turns, one for each bit: 1,024 different stacks. */
static __attribute__((noinline)) void one(unsigned int path, int depth)
{
	if (depth == 0)
		make();
	else if (path & 1)
		left(path >> 1, depth - 1);
	else
		right(path >> 1, depth - 1);
	__asm__ volatile("");
}

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Pairs for MS milliseconds: how many in a second of the clock, and of the processor. */
static void pairs(long ms)
{
	double start = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID), now;
	CUdeviceptr p;
	long count = 0;

	do {
		for (int i = 0; i < 100; i++, count++)
			if (cuMemAlloc_v2(&p, 512) || cuMemFree_v2(p))
				abort();
		now = seconds(CLOCK_MONOTONIC);
	} while (now - start < (double)ms / 1e3);
	printf("%.0f %.0f\n", (double)count / (now - start),
	       (double)count / (seconds(CLOCK_THREAD_CPUTIME_ID) - cpu));
}

static void step(void)
{
	double start = seconds(CLOCK_MONOTONIC);

	if (gpuleak_step)
		gpuleak_step(NULL);
	printf("%.0f\n", (seconds(CLOCK_MONOTONIC) - start) * 1e9);
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 100000, before;
	char line[64];
	CUdeviceptr p;
	void *context;

	if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || cuMemAlloc_v2(&p, 512) ||
	    cuMemFree_v2(p))
		return 1;
	before = resident_kib();
	for (long i = 0; i < count; i++)
		one((unsigned int)i, 10);
	printf("%.1f\n", (double)(resident_kib() - before) * 1024 / (double)count);
	fflush(stdout);
	while (argc > 2 && fgets(line, sizeof(line), stdin)) {
		if (strncmp(line, "pairs ", 6) == 0)
			pairs(atol(line + 6));
		else
			step();
		fflush(stdout);
	}
	return 0;
}
