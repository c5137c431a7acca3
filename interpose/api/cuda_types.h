/* SPDX-License-Identifier: MIT
 *
 * The few CUDA driver types that the rows of cuda.def need, so that nothing here asks
 * for a CUDA toolkit. tests/standin and the compile-time check use them too.
 * Where cuda.h is present, tests/unit/cuda_abi.c holds every one against it.
 */
#ifndef GPULEAK_API_CUDA_TYPES_H
#define GPULEAK_API_CUDA_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;                 /* an enum there: same size and passing */
typedef unsigned long long CUdeviceptr;
typedef unsigned int CUdeviceptr_v1;  /* 32 bits: the ABI before CUDA 3.2 */
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef uint64_t cuuint64_t;
typedef int CUdriverProcAddressQueryResult;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_NOT_SUPPORTED = 801,
};

#endif
