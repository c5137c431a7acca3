/* SPDX-License-Identifier: MIT
 *
 * What the OpenCL wrappers need besides their rows.
 */
#ifndef GPULEAK_OPENCL_CALLS_H
#define GPULEAK_OPENCL_CALLS_H

#include "interpose/block/blocks.h"
#include "interpose/opencl/opencl_types.h"

/* A success of a CREATE row: adds the device and, for a sub-buffer, the parent. */
void opencl_record_made(const struct site *site, cl_mem made, cl_context context, uint64_t bytes);

/* A success of an OBJECT or EVENT row: a handle of any sort that is no memory. */
void opencl_record_object(const struct site *site, const void *made, cl_context context);

/* A new context: what was known of its address is forgotten. */
void opencl_record_context(const struct site *site, cl_context context);
/* What clCreateKernelsInProgram answered; KERNELS and RET_COUNT may be NULL. */
void opencl_record_kernels(const struct site *site, cl_program program, cl_uint room,
			   const cl_kernel *kernels, const cl_uint *ret_count);
/* KERNEL was given SIZE bytes at VALUE (or NULL) as argument INDEX. */
void opencl_record_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value);

enum outcome opencl_outcome(cl_int r);

/* What lookups give out for each row. */
extern void *const opencl_wrappers[] __attribute__((visibility("hidden")));

#endif
