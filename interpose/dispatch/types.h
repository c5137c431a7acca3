/* SPDX-License-Identifier: MIT
 *
 * Types of the intercepted APIs and the prototypes of every wrapper, taken from the
 * rows. OpenCL's come from its headers, so a row that disagrees with them does not
 * compile; CUDA's are ours (tests/unit/cuda_abi.c holds them against cuda.h).
 */
#ifndef GPULEAK_TYPES_H
#define GPULEAK_TYPES_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl.h>
#include <CL/cl_egl.h>
#include <CL/cl_ext.h>
#include <CL/cl_gl.h>

typedef void *cl_svm_pointer; /* one word for the rows */

#include "interpose/cuda/cuda_types.h"

#define EXPORT __attribute__((visibility("default")))

#define HOOK(symbol, returns, parameters, ...) EXPORT returns symbol parameters;
#define HAND(symbol, returns, parameters) EXPORT returns symbol parameters;
#include "interpose/dispatch/hooks.def"

#endif
