/* SPDX-License-Identifier: MIT
 *
 * Many live blocks from many places: COUNT blocks at 1,024 distinct stacks, all leaked.
 * Prints how much the process grew per block, in bytes, the driver's share included:
 * run with and without the preload, the difference is the tracer's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 100000, before;
	CUdeviceptr p;
	void *context;

	if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || cuMemAlloc_v2(&p, 512) ||
	    cuMemFree_v2(p))
		return 1;
	before = resident_kib();
	for (long i = 0; i < count; i++)
		one((unsigned int)i, 10);
	printf("%.1f\n", (double)(resident_kib() - before) * 1024 / (double)count);
	return 0;
}
