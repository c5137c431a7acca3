/* SPDX-License-Identifier: MIT
 *
 * What Python programs allocate with: their stacks go through lines of this file that the tests
 * know by their markers. Linked to the stand-in driver.
 */
#include "cu.h"

CUresult cuCtxGetCurrent(CUcontext *context);
CUdeviceptr helper_allocate(size_t bytes);
CUdeviceptr helper_other(size_t bytes);
void *helper_pinned(size_t bytes);
void helper_free(CUdeviceptr address);
void helper_lose(size_t bytes);

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

/* Allocates in a context of its own, and destroys the context. */
void helper_lose(size_t bytes)
{
	CUcontext context, before;
	CUdeviceptr address;

	start();
	must(cuCtxGetCurrent(&before), "cuCtxGetCurrent");
	must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate_v2");
	must(cuMemAlloc_v2(&address, bytes), "cuMemAlloc_v2"); /* @lose */
	must(cuCtxDestroy_v2(context), "cuCtxDestroy_v2"); /* @end */
	must(cuCtxSetCurrent(before), "cuCtxSetCurrent");
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
