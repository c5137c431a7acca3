/* SPDX-License-Identifier: MIT
 *
 * What the guard does in place of a driver's call: functions of guard_rows.h. Each takes the call,
 * the driver's function REAL and the arguments of its row, and returns what the application gets.
 */
#pragma once

#include "interpose/block/call.h"
#include "interpose/cuda/cuda_types.h"
#include "interpose/guard/patterns.h"
#include "interpose/opencl/opencl_types.h"

#define GUARDED(name, ...) CUresult name(struct call *call, void *real, __VA_ARGS__)
#define GUARDED_CL(type, name, ...) type name(struct call *call, void *real, __VA_ARGS__)

/* Returns true if the level patterns or pages has a block around ADDRESS, with it in *RET: one that
 * is live, held back or unmapped. */
bool guard_find(uint64_t address, struct guard_place *ret);
/* Call after memory ran out. Returns what the guard keeps to the driver. Returns true if that was
 * anything. */
bool guard_relieve(void);

GUARDED(guard_alloc, CUdeviceptr *address, size_t bytes);
GUARDED(guard_free, CUdeviceptr address);
GUARDED(guard_free_async, CUdeviceptr address, CUstream stream);

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

CUresult guard_synchronize(struct call *call, void *real);
GUARDED(guard_synchronize_v2, CUcontext context);
GUARDED(guard_synchronize_stream, CUstream stream);
GUARDED(guard_synchronize_event, CUevent event);

/* CALL returned R. If that is the error of an illegal address, records it, once for each context:
 * see launches.h. */
void guard_failed(struct call *call, CUresult r);

GUARDED_CL(cl_mem, guard_buffer, cl_context context, cl_mem_flags flags, size_t size,
	   void *host_ptr, cl_int *errcode_ret);
GUARDED_CL(cl_mem, guard_buffer_with, cl_context context, const cl_mem_properties *properties,
	   cl_mem_flags flags, size_t size, void *host_ptr, cl_int *errcode_ret);
GUARDED_CL(cl_int, guard_retain, cl_mem object);
GUARDED_CL(cl_int, guard_release, cl_mem object);
GUARDED_CL(cl_int, guard_release_context, cl_context context);
GUARDED_CL(cl_svm_pointer, guard_svm_alloc, cl_context context, cl_svm_mem_flags flags, size_t size,
	   cl_uint alignment);
GUARDED_CL(void, guard_svm_free, cl_context context, void *address);
GUARDED_CL(cl_int, guard_finish, cl_command_queue queue);
