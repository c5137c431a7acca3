/* SPDX-License-Identifier: MIT
 *
 * Functions that the OpenCL wrappers use besides their rows.
 */
#pragma once

#include "interpose/block/blocks.h"
#include "interpose/opencl/opencl_types.h"

/* Records the object of a successful CREATE row, with its device and, for a sub-buffer, its
 * parent. */
void opencl_record_made(struct call *call, cl_mem made, cl_context context, uint64_t bytes);

/* The same for a buffer that clCreateBuffer() made in memory of its own. The driver is requested to
 * report its end only before its first use, because that costs more than the whole call. */
void opencl_record_buffer(struct call *call, cl_mem made, cl_context context, uint64_t bytes);
/* Call before a call that uses OBJECTS, which may be NULL, in a way that may outlast the call. */
void opencl_use(cl_uint count, const cl_mem *objects);
/* Requests the driver to report the end of OBJECT with WATCH, if that is not 0. */
void opencl_watch_used(cl_mem object, uint64_t watch);
/* Call before the driver releases the last reference of FREEING's buffer, which no intercepted call
 * has used. If it may be in use nevertheless, requests the driver to report its end. */
void opencl_release_unused(struct freeing *freeing);

/* Records the handle of a successful OBJECT or EVENT row: any object that is not memory. */
void opencl_record_object(struct call *call, const void *made, cl_context context);

/* Records a new context and clears the cached device of an older context at the same address. */
void opencl_record_context(struct call *call, cl_context context);
/* Records the kernels that clCreateKernelsInProgram returned. KERNELS and RET_COUNT may be NULL. */
void opencl_record_kernels(struct call *call, cl_program program, cl_uint room,
			   const cl_kernel *kernels, const cl_uint *ret_count);
/* Records that argument INDEX of KERNEL is the SIZE bytes at VALUE, which may be NULL. */
void opencl_record_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value);

/* Returns what the result R of a free or release means for its block. */
static inline enum outcome opencl_outcome(cl_int r)
{
	if (r == CL_SUCCESS)
		return OUTCOME_DONE;
	/* CL_INVALID_VALUE: for addresses of shared memory */
	return r == CL_INVALID_MEM_OBJECT || r == CL_INVALID_VALUE ? OUTCOME_INVALID
								   : OUTCOME_REFUSED;
}

/* The result of a call whose function is missing: its symbol is an unresolved weak reference. */
#define OPENCL_MISSING(returns)                                                             \
	_Generic((returns *)NULL, cl_int *: CL_INVALID_OPERATION, void *: (void)0, default: NULL)

/* The function that a lookup returns for each row. */
extern void *const opencl_wrappers[] __attribute__((visibility("hidden")));
extern const struct guarded_wrapper opencl_guarded[] __attribute__((visibility("hidden")));
