/* SPDX-License-Identifier: MIT
 *
 * Queries about OpenCL objects: sizes, contexts and devices; and callbacks for the end of an
 * object.
 */
#pragma once

#include "interpose/dispatch/hooks.h"
#include "interpose/opencl/opencl_types.h"

/* Return the number that the report uses for a device, or for the first device of a context. -1: no
 * device. */
int opencl_device_number(cl_device_id device);
int opencl_device_of(cl_context context);

/* Returns the function ID of the loader, layer or vendor that the present call goes to. Objects of
 * the call must be queried through it. */
void *opencl_used(enum used_id id);
/* The same, with the type of the USED row SYMBOL. */
#define OPENCL_USED(symbol) ((used_##symbol *)opencl_used(USED_##symbol))
#define USED(symbol, returns, parameters) typedef returns used_##symbol parameters;
#define ROWS_OF "interpose/opencl/opencl.def"
#include "interpose/dispatch/hooks.def"

/* Returns the bytes of global memory of device number DEVICE, or 0 if unknown. */
uint64_t opencl_total_of(int device);

/* Return the least number of bytes of a texel and of an image. The arguments may be NULL. */
uint64_t opencl_texel_bytes(const cl_image_format *format);
uint64_t opencl_image_bytes(const cl_image_format *format, const cl_image_desc *description);

/* Registers CALL, which the driver calls once, with DATA, when OBJECT is destroyed. Returns false
 * if the driver does not support that. */
bool opencl_watch(cl_mem object, void(CL_CALLBACK *call)(cl_mem, void *), void *data);
/* Returns a new unique number for call.watched. */
uint64_t opencl_number(void);
/* Returns true if the process has made an OpenCL memory object. */
bool opencl_was_used(void);

/* Query the driver about an object that it just returned or was just passed. */
uint64_t opencl_size_of(cl_mem object);
cl_context opencl_context_of(cl_mem object);
/* Queries WHAT of OBJECT. Returns false on failure. */
bool opencl_ask_object(cl_mem object, cl_mem_info what, void *ret, size_t size);

/* CONTEXT is new: clears the cached device of an older context at the same address. */
void opencl_context_made(cl_context context);
