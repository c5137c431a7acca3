/* SPDX-License-Identifier: MIT
 *
 * What Python programs allocate with: their stacks go through lines of this file that the tests
 * know by their markers. Linked to the stand-in driver.
 */
#include "cu.h"

CUdeviceptr helper_allocate(size_t bytes);
CUdeviceptr helper_other(size_t bytes);
void *helper_pinned(size_t bytes);
void helper_free(CUdeviceptr address);

static void start(void)
{
	static __thread int started;

	if (!started++)
		begin();
}

CUdeviceptr helper_allocate(size_t bytes)
{
	CUdeviceptr address;

	start();
	must(cuMemAlloc_v2(&address, bytes), "cuMemAlloc_v2"); /* @allocate */
	return address;
}

CUdeviceptr helper_other(size_t bytes)
{
	CUdeviceptr address;

	start();
	must(cuMemAlloc_v2(&address, bytes), "cuMemAlloc_v2"); /* @other */
	return address;
}

void *helper_pinned(size_t bytes)
{
	void *address;

	start();
	must(cuMemHostAlloc(&address, bytes, 0), "cuMemHostAlloc");
	return address;
}

void helper_free(CUdeviceptr address)
{
	must(cuMemFree_v2(address), "cuMemFree_v2");
}
