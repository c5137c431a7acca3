/* SPDX-License-Identifier: MIT
 *
 * libc10_cuda.so: takes segments of 2 MiB for a cache that is never emptied, or what is asked
 * for and not a byte more.
 */
#include "cu.h"
#include "rules.h"

namespace c10::cuda::CUDACachingAllocator::Native
{
void *uncached_allocate(std::size_t bytes)
{
	CUdeviceptr address = 0;

	must(cuMemAlloc_v2(&address, bytes), "uncached_allocate"); /* @uncached */
	return reinterpret_cast<void *>(address);
}

void *DeviceCachingAllocator::malloc(std::size_t bytes)
{
	const std::size_t segment = 2u << 20;
	CUdeviceptr address = 0;

	must(cuMemAlloc_v2(&address, (bytes + segment - 1) / segment * segment), "malloc"); /* @segment */
	return reinterpret_cast<void *>(address);
}

void *NativeCachingAllocator::allocate(std::size_t bytes, bool cached)
{
	if (cached)
		return device.malloc(bytes); /* @cached */
	return uncached_allocate(bytes); /* @allocate */
}
}
