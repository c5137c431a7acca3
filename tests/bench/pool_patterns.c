/* SPDX-License-Identifier: MIT
 *
 * The patterns of pool_patterns.h by the driver's own allocators: native (under the preload,
 * the pool's), async (the stream-ordered one, that keeps what it has), none (what the pattern
 * itself costs).
 */
#include "pool_patterns.h"

static bool nothing_to_begin(void)
{
	return true;
}

/* What a pool takes beforehand is taken before the clock runs, as RMM's pools take theirs. */
static bool native_begin(void)
{
	CUdeviceptr p;

	bench_must(cuMemAlloc_v2(&p, 512), "cuMemAlloc");
	bench_must(cuMemFree_v2(p), "cuMemFree");
	return true;
}

static CUdeviceptr native_allocate(size_t bytes, CUstream stream)
{
	CUdeviceptr p = 0;
	int result = cuMemAlloc_v2(&p, bytes);

	(void)stream;
	if (result != BENCH_OUT_OF_MEMORY)
		bench_must(result, "cuMemAlloc");
	return result ? 0 : p;
}

static void native_release(CUdeviceptr p, size_t bytes, CUstream stream)
{
	(void)bytes, (void)stream;
	bench_must(cuMemFree_v2(p), "cuMemFree");
}

static CUmemoryPool async_pool;

static bool async_begin(void)
{
	async_pool = bench_keeping_pool();
	return true;
}

static CUdeviceptr async_allocate(size_t bytes, CUstream stream)
{
	CUdeviceptr p = 0;
	int result = cuMemAllocAsync(&p, bytes, stream);

	if (result != BENCH_OUT_OF_MEMORY)
		bench_must(result, "cuMemAllocAsync");
	return result ? 0 : p;
}

static void async_release(CUdeviceptr p, size_t bytes, CUstream stream)
{
	(void)bytes;
	bench_must(cuMemFreeAsync(p, stream), "cuMemFreeAsync");
}

static uint64_t async_reserved(void)
{
	uint64_t ret = 0;

	bench_must(cuMemPoolGetAttribute(async_pool, (CUmemPool_attribute)BENCH_POOL_RESERVED_HIGH,
					 &ret),
		   "cuMemPoolGetAttribute");
	return ret;
}

static CUdeviceptr none_allocate(size_t bytes, CUstream stream)
{
	static CUdeviceptr next = 1 << 30;

	(void)stream;
	return next += bytes;
}

static void none_release(CUdeviceptr p, size_t bytes, CUstream stream)
{
	(void)p, (void)bytes, (void)stream;
}

static const struct allocator allocators[] = {
	{ "native", native_begin, native_allocate, native_release, NULL },
	{ "async", async_begin, async_allocate, async_release, async_reserved },
	{ "none", nothing_to_begin, none_allocate, none_release, NULL },
};

int main(int argc, char **argv)
{
	return patterns_main(argc, argv, allocators, sizeof(allocators) / sizeof(allocators[0]));
}
