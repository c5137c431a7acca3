/* SPDX-License-Identifier: MIT
 *
 * Calls that only the level pages needs. Must not decide which blocks are guarded.
 */
#include "interpose/guard/pages_calls.h"

#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/cuda_rows.h"
#include "interpose/guard/guard.h"
#include "interpose/guard/launches.h"
#include "interpose/guard/pages.h"

/* The beginning of the struct of cuda.h. */
struct CUlaunchConfig_st {
	unsigned int grid[3], block[3], shared;
	CUstream stream;
};

/* ---- allocation ---- */

GUARDED(guard_alloc_pitch, CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
	unsigned int element)
{
	CUresult r;

	if (pages_alloc_pitch(call, address, pitch, width, height, element, &r))
		return r;
	return DRIVER(cuMemAllocPitch_v2, real)(address, pitch, width, height, element);
}

static CUresult unguarded(enum guard_not reason, CUresult r)
{
	if (r == CUDA_SUCCESS)
		guard_count_unguarded(reason);
	return r;
}

GUARDED(guard_alloc_managed, CUdeviceptr *address, size_t bytes, unsigned int flags)
{
	(void)call;
	return unguarded(GUARD_NOT_MANAGED,
			 DRIVER(cuMemAllocManaged, real)(address, bytes, flags));
}

GUARDED(guard_alloc_async, CUdeviceptr *address, size_t bytes, CUstream stream)
{
	(void)call;
	return unguarded(GUARD_NOT_STREAM_ORDERED,
			 DRIVER(cuMemAllocAsync, real)(address, bytes, stream));
}

GUARDED(guard_alloc_from_pool, CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
	CUstream stream)
{
	(void)call;
	return unguarded(GUARD_NOT_STREAM_ORDERED,
			 DRIVER(cuMemAllocFromPoolAsync, real)(address, bytes, pool, stream));
}

/* The driver has no handle for memory that was allocated otherwise. */
GUARDED(guard_retain_handle, CUmemGenericAllocationHandle *handle, void *address)
{
	struct page_place place;

	(void)call;
	if (pages_lookup((uintptr_t)address, &place))
		return CUDA_ERROR_INVALID_VALUE;
	return DRIVER(cuMemRetainAllocationHandle, real)(handle, address);
}

/* ---- launches ---- */

/* The result of DRIVER_CALL, which launches F. */
#define LAUNCH(driver_call, f, stream, params, extra)                                       \
	struct guarded_launch launch;                                                       \
	bool noted = launches_look(&launch, f, stream, params, extra);                      \
	CUresult r = driver_call;                                                           \
	return noted ? launches_note(call, r, &launch, f, stream) : r;

GUARDED(guard_launch, CUfunction f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
	unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
	CUstream stream, void **params, void **extra)
{
	LAUNCH(DRIVER(cuLaunchKernel, real)(f, grid_x, grid_y, grid_z, block_x, block_y, block_z,
					    shared, stream, params, extra),
	       f, stream, params, extra)
}

GUARDED(guard_launch_cooperative, CUfunction f, unsigned int grid_x, unsigned int grid_y,
	unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	unsigned int shared, CUstream stream, void **params)
{
	LAUNCH(DRIVER(cuLaunchCooperativeKernel, real)(f, grid_x, grid_y, grid_z, block_x, block_y,
						       block_z, shared, stream, params),
	       f, stream, params, NULL)
}

GUARDED(guard_launch_ex, const CUlaunchConfig *how, CUfunction f, void **params, void **extra)
{
	CUstream stream = how ? how->stream : NULL;

	LAUNCH(DRIVER(cuLaunchKernelEx, real)(how, f, params, extra), f, stream, params, extra)
}
