/* SPDX-License-Identifier: MIT
 *
 * What the libraries of p_rules offer. They have the names of frameworks' libraries, and their
 * functions those of frameworks' functions; each is a few lines of ours.
 */
#ifndef GPULEAK_TESTS_PROGRAMS_RULES_H
#define GPULEAK_TESTS_PROGRAMS_RULES_H

#include <cstddef>

extern "C" int cublasCreate_v2(std::size_t bytes);

namespace c10::cuda::CUDACachingAllocator::Native
{
void *uncached_allocate(std::size_t bytes);

struct DeviceCachingAllocator {
	void *malloc(std::size_t bytes);
};

struct NativeCachingAllocator {
	void *allocate(std::size_t bytes, bool cached);

	DeviceCachingAllocator device;
};
}

namespace at
{
void *empty(std::size_t bytes, bool cached);
void matmul(std::size_t bytes);
void stream();
}

#endif
