/* SPDX-License-Identifier: MIT
 *
 * cuMemAlloc at many distinct stacks: bench-stacks STACKS [ROUNDS]
 *
 * Without ROUNDS each stack allocates one block, which stays. With ROUNDS each stack allocates and
 * frees a block ROUNDS times after a first round, all stacks in turn. Prints the nanoseconds of one
 * stack, or of one pair.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef unsigned long long CUdeviceptr;
int cuInit(unsigned int flags);
int cuCtxCreate_v2(void **context, unsigned int flags, int device);
int cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
int cuMemFree_v2(CUdeviceptr address);

#define DEPTH 20 /* frames, one for each bit of a stack's number */

static int freeing;

static void left(unsigned long number, int depth);
static void right(unsigned long number, int depth);

static __attribute__((noinline)) void go(unsigned long number, int depth)
{
	CUdeviceptr address;

	if (depth) {
		(number & 1 ? left : right)(number >> 1, depth - 1);
	} else if (cuMemAlloc_v2(&address, 64) != 0 || (freeing && cuMemFree_v2(address) != 0)) {
		puts("failed");
		exit(1);
	}
	__asm__ volatile("");
}

static __attribute__((noinline)) void left(unsigned long number, int depth)
{
	go(number, depth);
	__asm__ volatile("");
}

static __attribute__((noinline)) void right(unsigned long number, int depth)
{
	go(number, depth);
	__asm__ volatile("" ::: "memory");
}

static void round_of(unsigned long stacks)
{
	for (unsigned long i = 0; i < stacks; i++)
		go(i, DEPTH);
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int argc, char **argv)
{
	unsigned long stacks = argc > 1 ? strtoul(argv[1], NULL, 10) : 25000;
	unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	void *context;
	double start;

	cuInit(0);
	cuCtxCreate_v2(&context, 0, 0);
	freeing = rounds > 0;
	if (rounds)
		round_of(stacks);
	start = now_ns();
	for (unsigned long i = 0; i < (rounds ? rounds : 1); i++)
		round_of(stacks);
	printf("%.0f\n", (now_ns() - start) / (double)(stacks * (rounds ? rounds : 1)));
	return 0;
}
