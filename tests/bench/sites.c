/* SPDX-License-Identifier: MIT
 *
 * Cost of a cuMemAlloc/cuMemFree pair in a program that allocates at many places in turn, all
 * of them as deep as each other below the same wrapper: SITES paths of DEPTH frames without
 * frame pointers, that hold something else in that register each time. As a training step does.
 * Prints ns per pair.
 *
 *   bench-sites [SITES] [DEPTH] [PAIRS]
 */
#include "pool_bench.h"

static long down(int frames, uint64_t path, uint64_t value);

#if defined(__x86_64__)
#define HOLD(value) __asm__ volatile("mov %0, %%rbp" : : "r"(value) : "rbp")
#else
#define HOLD(value) __asm__ volatile("" : : "r"(value))
#endif

static __attribute__((noinline)) long left(int frames, uint64_t path, uint64_t value)
{
	long r;

	HOLD(value + (uint64_t)frames);
	r = down(frames - 1, path >> 1, value);
	__asm__ volatile("" : "+r"(r));
	return r + 1;
}

static __attribute__((noinline)) long right(int frames, uint64_t path, uint64_t value)
{
	long r;

	HOLD(value - (uint64_t)frames);
	r = down(frames - 1, path >> 1, value);
	__asm__ volatile("" : "+r"(r));
	return r + 2;
}

static __attribute__((noinline)) long down(int frames, uint64_t path, uint64_t value)
{
	CUdeviceptr p;
	long r = 0;

	if (frames > 1)
		r = path & 1 ? left(frames - 1, path, value) : right(frames - 1, path, value);
	else if (cuMemAlloc_v2(&p, 65536) || cuMemFree_v2(p))
		abort();
	__asm__ volatile("" : "+r"(r));
	return r;
}

static void go(long pairs, int sites, int depth)
{
	for (long i = 0; i < pairs; i++)
		down(depth, (uint64_t)(i % sites) * 0x9e3779b97f4a7c15u, (uint64_t)i * 64);
}

int main(int argc, char **argv)
{
	int sites = argc > 1 ? atoi(argv[1]) : 20, depth = argc > 2 ? atoi(argv[2]) : 40;
	long pairs = argc > 3 ? atol(argv[3]) : 200000;
	double start;

	if (sites < 1)
		return 1;
	bench_begin();
	go(20L * sites, sites, depth);
	start = bench_now_ns();
	go(pairs, sites, depth);
	printf("%.1f\n", (bench_now_ns() - start) / (double)pairs);
	return 0;
}
