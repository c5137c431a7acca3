/* SPDX-License-Identifier: MIT
 *
 * A library whose constructor and destructor allocate tensors: under the loader's lock they wait
 * for the allocator's lock. A thread that wants the loader's lock under the allocator's lock would
 * wait forever.
 */
#include "c10.h"

namespace
{
void use_allocator()
{
	for (int i = 0; i < 50; i++)
		c10::cuda::CUDACachingAllocator::raw_delete(
			c10::cuda::CUDACachingAllocator::raw_alloc(4096, 0, nullptr));
}

__attribute__((constructor)) void begin()
{
	use_allocator();
}

__attribute__((destructor)) void end()
{
	use_allocator();
}
} // namespace
