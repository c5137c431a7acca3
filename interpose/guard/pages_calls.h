/* SPDX-License-Identifier: MIT
 *
 * Calls of CUDA that only the level pages serves (guard_rows.h).
 */
#ifndef GPULEAK_GUARD_PAGES_CALLS_H
#define GPULEAK_GUARD_PAGES_CALLS_H

#include "interpose/guard/guarded.h"

GUARDED(guard_alloc_pitch, CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
	unsigned int element);
GUARDED(guard_alloc_managed, CUdeviceptr *address, size_t bytes, unsigned int flags);
GUARDED(guard_alloc_async, CUdeviceptr *address, size_t bytes, CUstream stream);
GUARDED(guard_alloc_from_pool, CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
	CUstream stream);
GUARDED(guard_retain_handle, CUmemGenericAllocationHandle *handle, void *address);

GUARDED(guard_launch, CUfunction f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
	unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
	CUstream stream, void **params, void **extra);
GUARDED(guard_launch_cooperative, CUfunction f, unsigned int grid_x, unsigned int grid_y,
	unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	unsigned int shared, CUstream stream, void **params);
GUARDED(guard_launch_ex, const CUlaunchConfig *how, CUfunction f, void **params, void **extra);

#endif
