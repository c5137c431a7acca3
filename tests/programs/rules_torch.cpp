/* SPDX-License-Identifier: MIT
 *
 * libtorch_cuda.so: a tensor's memory from the allocator of libc10_cuda.so, and a handle of
 * cuBLAS that is made for the first product and never destroyed. A stream of its own likewise.
 */
#include "cu.h"
#include "rules.h"

namespace at
{
static c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator allocator;

void *empty(std::size_t bytes, bool cached)
{
	return allocator.allocate(bytes, cached); /* @empty */
}

void matmul(std::size_t bytes)
{
	cublasCreate_v2(bytes); /* @matmul */
}

void stream()
{
	void *own;

	must(cuStreamCreate(&own, 1), "stream");
}
}
