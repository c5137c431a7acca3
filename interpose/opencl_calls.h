/* SPDX-License-Identifier: MIT
 *
 * What the OpenCL wrappers need besides their rows.
 */
#ifndef GPULEAK_OPENCL_CALLS_H
#define GPULEAK_OPENCL_CALLS_H

#include "blocks.h"
#include "types.h"

/* A success of a CREATE row: adds the device and, for a sub-buffer, the parent. */
void opencl_record_made(const struct site *site, cl_mem made, cl_context context, uint64_t bytes);

enum outcome opencl_outcome(cl_int r);

/* Devices as the report numbers them: one, and the first of a context; -1 if none. */
int opencl_device_number(cl_device_id device);
int opencl_device_of(cl_context context);

/* The function for a question about the present call's objects: that of the loader, layer
 * or vendor that the call goes to. */
void *opencl_used(enum used_id id);

/* Asked of the driver about an object that it just made or was just given. */
uint64_t opencl_size_of(cl_mem object);
cl_context opencl_context_of(cl_mem object);

#endif
