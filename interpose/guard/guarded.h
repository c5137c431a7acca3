/* SPDX-License-Identifier: MIT
 *
 * What the guard does in place of a driver's call: functions of guard_rows.h that several levels
 * serve, and those of OpenCL. Each takes the call, the driver's function REAL and the arguments of
 * its row, and returns what the application gets.
 */
#ifndef GPULEAK_GUARD_GUARDED_H
#define GPULEAK_GUARD_GUARDED_H

#include "interpose/block/call.h"
#include "interpose/cuda/cuda_types.h"
#include "interpose/guard/patterns.h"
#include "interpose/opencl/opencl_types.h"

#define GUARDED(name, ...) CUresult name(struct call *call, void *real, __VA_ARGS__)
#define GUARDED_CL(type, name, ...) type name(struct call *call, void *real, __VA_ARGS__)

/* Returns true if the level patterns or pages has a block around ADDRESS, with it in *RET. */
bool guard_find(uint64_t address, struct guard_place *ret);
/* Call after memory ran out. Returns what the guard keeps to the driver. Returns true if that was
 * anything. */
bool guard_relieve(void);

GUARDED(guard_alloc, CUdeviceptr *address, size_t bytes);
GUARDED(guard_free, CUdeviceptr address);
GUARDED(guard_free_async, CUdeviceptr address, CUstream stream);

CUresult guard_synchronize(struct call *call, void *real);
GUARDED(guard_synchronize_v2, CUcontext context);
GUARDED(guard_synchronize_stream, CUstream stream);
GUARDED(guard_synchronize_event, CUevent event);

/* CALL returned R, not 0. */
void guard_failed(struct call *call, CUresult r);

GUARDED_CL(cl_mem, guard_buffer, cl_context context, cl_mem_flags flags, size_t size,
	   void *host_ptr, cl_int *errcode_ret);
GUARDED_CL(cl_int, guard_retain, cl_mem object);
GUARDED_CL(cl_int, guard_release, cl_mem object);
GUARDED_CL(cl_int, guard_release_context, cl_context context);
GUARDED_CL(cl_svm_pointer, guard_svm_alloc, cl_context context, cl_svm_mem_flags flags, size_t size,
	   cl_uint alignment);
GUARDED_CL(void, guard_svm_free, cl_context context, void *address);
GUARDED_CL(cl_int, guard_finish, cl_command_queue queue);

#endif
