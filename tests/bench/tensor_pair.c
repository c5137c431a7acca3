/* SPDX-License-Identifier: MIT
 *
 * Cost of a tensor that PyTorch's allocator reports: tensor_pair DEPTH PAIRS. A pair is one report
 * of an allocation inside a cached block, and one of its end, below DEPTH frames. Prints ns per
 * pair.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench_range.h"
#include "tests/torture/tensors.h"

enum { DEVICE_CUDA = 1, CACHED_BYTES = 64 << 20, TENSOR_BYTES = 4096 };

typedef unsigned long long CUdeviceptr;
int cuInit(unsigned int flags);
int cuCtxCreate_v2(void **context, unsigned int flags, int device);
int cuMemAlloc_v2(CUdeviceptr *p, size_t bytes);

static CUdeviceptr cached;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static __attribute__((noinline)) void report(long i, int64_t bytes)
{
	const CUdeviceptr offset = (CUdeviceptr)(i % 64) * TENSOR_BYTES;

	torture_report((void *)(uintptr_t)(cached + offset), bytes, DEVICE_CUDA);
	__asm__ volatile("");
}

/* Frames of a real program: calls that return, so that no tail call folds them. */
static __attribute__((noinline)) long below(int frames, long pairs)
{
	long r = 0;

	if (frames > 0)
		r = below(frames - 1, pairs) + 1;
	for (long i = 0; frames == 0 && i < pairs; i++) {
		report(i, TENSOR_BYTES);
		report(i, -TENSOR_BYTES);
	}
	__asm__ volatile("" : "+r"(r));
	return r;
}

int main(int argc, char **argv)
{
	int depth = argc > 1 ? atoi(argv[1]) : 20;
	long pairs = argc > 2 ? atol(argv[2]) : 1000000;
	void *context;
	double start;

	if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || cuMemAlloc_v2(&cached, CACHED_BYTES))
		return 1;
	bench_range();
	below(depth, 1000);
	start = now_ns();
	below(depth, pairs);
	printf("%.1f\n", (now_ns() - start) / (double)pairs);
	return 0;
}
