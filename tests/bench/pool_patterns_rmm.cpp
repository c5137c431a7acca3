/* SPDX-License-Identifier: MIT
 *
 * The patterns of pool_patterns.h by RMM's resources: pool (half of the free memory at once, as in
 * RMM's own benchmarks), growing (that pool from nothing), arena, binning, async, cuda. Wants the
 * headers and libraries of RMM's wheels; no part of the build. With the wheels librmm and
 * rapids-logger unpacked in W:
 *
 *   g++ -std=c++20 -O2 -DNDEBUG -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE -I W/librmm/include
 *       -I W/librmm/include/rapids -I W/rapids_logger/include -I CUDA/include
 *       -o pool_patterns_rmm pool_patterns_rmm.cpp -L W/librmm/lib64 -lrmm
 *       -L W/rapids_logger/lib64 -lrapids_logger -Wl,-rpath,'$ORIGIN' -L CUDA/lib64 -lcudart_static
 *       -l:libcuda.so.1 -lpthread -ldl -lrt
 */
#define BENCH_CUDA_H
#include "pool_patterns.h"

#include <rmm/error.hpp>
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/binning_memory_resource.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>

#include <cuda/stream_ref>

#include <functional>
#include <memory>
#include <optional>

using Resource = cuda::mr::any_resource<cuda::mr::device_accessible>;

static std::optional<rmm::mr::statistics_resource_adaptor> upstream; /* what is had of the driver */
static std::optional<Resource> resource;

static cuda::stream_ref view(CUstream stream)
{
	return cuda::stream_ref{ static_cast<cudaStream_t>(stream) };
}

static CUdeviceptr allocate(size_t bytes, CUstream stream)
{
	try {
		return reinterpret_cast<CUdeviceptr>(resource->allocate(view(stream), bytes, 256));
	} catch (const rmm::out_of_memory &) {
		return 0;
	} catch (const std::exception &error) {
		fprintf(stderr, "%s\n", error.what());
		exit(1);
	}
}

static void release(CUdeviceptr p, size_t bytes, CUstream stream)
{
	resource->deallocate(view(stream), reinterpret_cast<void *>(p), bytes, 256);
}

static uint64_t reserved()
{
	return static_cast<uint64_t>(upstream->get_bytes_counter().peak);
}

static size_t half_of_free()
{
	size_t unused = 0, total = 0;

	bench_must(cudaMemGetInfo(&unused, &total), "cudaMemGetInfo");
	return unused / 2 >> 8 << 8;
}

/* RMM's resources stand on another one: the driver's, counted. */
static bool begin(const std::function<Resource()> &make)
{
	upstream.emplace(rmm::mr::cuda_memory_resource{});
	try {
		resource.emplace(make());
	} catch (const std::exception &error) {
		fprintf(stderr, "%s\n", error.what());
		return false;
	}
	return true;
}

static bool begin_cuda()
{
	return begin([] { return Resource{ *upstream }; });
}

static bool begin_pool()
{
	return begin([] {
		return Resource{ rmm::mr::pool_memory_resource{ *upstream, half_of_free() } };
	});
}

static bool begin_growing()
{
	return begin([] { return Resource{ rmm::mr::pool_memory_resource{ *upstream, 0 } }; });
}

static bool begin_arena()
{
	return begin([] { return Resource{ rmm::mr::arena_memory_resource{ *upstream } }; });
}

static bool begin_binning()
{
	return begin([] {
		return Resource{ rmm::mr::binning_memory_resource{
			rmm::mr::pool_memory_resource{ *upstream, half_of_free() }, 18, 22 } };
	});
}

static std::optional<rmm::mr::cuda_async_memory_resource> own_pool;

static bool begin_async()
{
	return begin([] {
		own_pool.emplace();
		return Resource{ *own_pool };
	});
}

static uint64_t async_reserved()
{
	uint64_t ret = 0;

	bench_must(cudaMemPoolGetAttribute(own_pool->pool_handle(), cudaMemPoolAttrReservedMemHigh,
					   &ret),
		   "cudaMemPoolGetAttribute");
	return ret;
}

static const struct allocator allocators[] = {
	{ "rmm-cuda", begin_cuda, allocate, release, reserved },
	{ "rmm-pool", begin_pool, allocate, release, reserved },
	{ "rmm-growing", begin_growing, allocate, release, reserved },
	{ "rmm-arena", begin_arena, allocate, release, reserved },
	{ "rmm-binning", begin_binning, allocate, release, reserved },
	{ "rmm-async", begin_async, allocate, release, async_reserved },
};

int main(int argc, char **argv)
{
	int status =
		patterns_main(argc, argv, allocators, sizeof(allocators) / sizeof(allocators[0]));

	fflush(stdout);
	_exit(status); /* RMM's objects are not to be ended after the driver */
}
