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

/* Devices as the report numbers them: one, and the first of a context; -1 if none. */
int opencl_device_number(cl_device_id device);
int opencl_device_of(cl_context context);

/* The function for a question about the present call's objects: that of the loader, layer
 * or vendor that the call goes to. */
void *opencl_used(enum used_id id);

/* Bytes of global memory of the device with that number; 0 if that is not known. */
uint64_t opencl_total_of(int device);

/* What an image takes at least, from its description; NULL is fine. */
uint64_t opencl_texel_bytes(const cl_image_format *format);
uint64_t opencl_image_bytes(const cl_image_format *format, const cl_image_desc *description);

/* The driver will call CALL with DATA, once, when OBJECT is gone; false: it will not. */
bool opencl_watch(cl_mem object, void(CL_CALLBACK *call)(cl_mem, void *), void *data);
/* A new one for site.watched. */
uint64_t opencl_number(void);

/* Asked of the driver about an object that it just made or was just given. */
uint64_t opencl_size_of(cl_mem object);
cl_context opencl_context_of(cl_mem object);

#endif
