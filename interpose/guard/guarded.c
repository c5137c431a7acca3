/* SPDX-License-Identifier: MIT
 *
 * The guarded calls that several levels serve: asks each level in turn, and otherwise calls the
 * driver. Must not decide what a level does.
 */
#include "interpose/guard/guarded.h"

#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/cuda_rows.h"
#include "interpose/guard/guard.h"
#include "interpose/guard/launches.h"
#include "interpose/guard/pages.h"

/* ---- allocation and free ---- */

GUARDED(guard_alloc, CUdeviceptr *address, size_t bytes)
{
	CUresult r;

	if (guard_has(GUARD_PAGES) && pages_alloc(call, address, bytes, &r))
		return r;
	return DRIVER(cuMemAlloc_v2, real)(address, bytes);
}

GUARDED(guard_free, CUdeviceptr address)
{
	CUresult r;

	(void)call;
	return pages_free(address, &r) ? r : DRIVER(cuMemFree_v2, real)(address);
}

GUARDED(guard_free_async, CUdeviceptr address, CUstream stream)
{
	CUresult r;

	return pages_free_async(call, real, address, stream, &r)
		       ? r : DRIVER(cuMemFreeAsync, real)(address, stream);
}

/* ---- waits ---- */

void guard_failed(struct call *call, CUresult r)
{
	launches_explain(call, r);
}

static CUresult waited_for_context(struct call *call, CUcontext context, uint64_t launched,
				   CUresult r)
{
	uint64_t owner = (uint64_t)(uintptr_t)context;
	int device;

	if (r != CUDA_SUCCESS) {
		guard_failed(call, r);
		return r;
	}
	if (!context)
		cuda_current_context(&owner, &device);
	launches_done_until(owner, launched);
	return r;
}

CUresult guard_synchronize(struct call *call, void *real)
{
	uint64_t launched = launches_now();

	return waited_for_context(call, NULL, launched, DRIVER(cuCtxSynchronize, real)());
}

GUARDED(guard_synchronize_v2, CUcontext context)
{
	uint64_t launched = launches_now();

	return waited_for_context(call, context, launched,
				  DRIVER(cuCtxSynchronize_v2, real)(context));
}

GUARDED(guard_synchronize_stream, CUstream stream)
{
	uint64_t launched = launches_now();
	CUresult r = DRIVER(cuStreamSynchronize, real)(stream);

	(void)call;
	if (r == CUDA_SUCCESS)
		launches_done_in_stream(stream, launched);
	return r;
}
