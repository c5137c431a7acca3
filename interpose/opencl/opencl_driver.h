/* SPDX-License-Identifier: MIT
 *
 * What OpenCL's driver says of its objects: sizes, contexts, devices, and when one is gone.
 */
#ifndef GPULEAK_OPENCL_DRIVER_H
#define GPULEAK_OPENCL_DRIVER_H

#include "interpose/dispatch/hooks.h"
#include "interpose/opencl/opencl_types.h"

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
/* Any other question about it; false: no answer. */
bool opencl_ask_object(cl_mem object, cl_mem_info what, void *ret, size_t size);

/* CONTEXT is a new one: what was known of its address is forgotten. */
void opencl_context_made(cl_context context);

#endif
