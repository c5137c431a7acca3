/* SPDX-License-Identifier: MIT
 *
 * What the programs that measure a pool share: the driver calls they make, time, kernels. Plain
 * driver API, so that a preload serves them as it serves any process. C, and C++ with BENCH_CUDA_H.
 */
#ifndef GPULEAK_POOL_BENCH_H
#define GPULEAK_POOL_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../torture/kernels.h"

#ifdef BENCH_CUDA_H /* headers of others bring it */
#include <cuda.h>
#else
typedef int CUresult, CUdevice, CUdevice_attribute, CUmemPool_attribute;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUmemPoolHandle_st *CUmemoryPool;

CUresult cuInit(unsigned int flags);
CUresult cuDeviceGetAttribute(int *ret, CUdevice_attribute attribute, CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext *ret, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuMemAlloc_v2(CUdeviceptr *ret, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr p);
CUresult cuMemAllocAsync(CUdeviceptr *ret, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *ret, CUdevice device);
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value);
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *ret);
CUresult cuStreamCreate(CUstream *ret, unsigned int flags);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuModuleLoadData(CUmodule *ret, const void *image);
CUresult cuModuleGetFunction(CUfunction *ret, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
			unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared, CUstream stream,
			void **arguments, void **extra);
#endif

enum {
	BENCH_CLOCK_RATE = 13, /* CU_DEVICE_ATTRIBUTE_CLOCK_RATE, kHz */
	BENCH_POOL_THRESHOLD = 4,
	BENCH_POOL_RESERVED_HIGH = 6,
	BENCH_NON_BLOCKING = 1,
	BENCH_NOT_READY = 600,
	BENCH_OUT_OF_MEMORY = 2,
};

static inline double bench_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline void bench_sleep_ns(long ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&t, NULL);
}

static inline void bench_must(int result, const char *what)
{
	if (result == 0)
		return;
	fprintf(stderr, "%s answered %d\n", what, result);
	exit(1);
}

/* The device's primary context, as cudart and every framework on it use it. */
static inline CUcontext bench_begin(void)
{
	CUcontext context;

	bench_must(cuInit(0), "cuInit");
	bench_must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	bench_must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	return context;
}

static inline CUstream bench_stream(void)
{
	CUstream stream;

	bench_must(cuStreamCreate(&stream, BENCH_NON_BLOCKING), "cuStreamCreate");
	return stream;
}

/* Memory that the driver's own stream-ordered pool has stays there: its fastest setting. */
static inline CUmemoryPool bench_keeping_pool(void)
{
	uint64_t most = UINT64_MAX;
	CUmemoryPool pool;

	bench_must(cuDeviceGetDefaultMemPool(&pool, 0), "cuDeviceGetDefaultMemPool");
	bench_must(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)BENCH_POOL_THRESHOLD, &most),
		   "cuMemPoolSetAttribute");
	return pool;
}

static inline CUfunction bench_kernel(const char *name)
{
	static CUmodule module;
	CUfunction function;

	if (!module)
		bench_must(cuModuleLoadData(&module, kernels_image), "cuModuleLoadData");
	bench_must(cuModuleGetFunction(&function, module, name), "cuModuleGetFunction");
	return function;
}

static inline void bench_spin(CUfunction spin, CUstream stream, uint64_t clocks)
{
	void *arguments[] = { &clocks };

	bench_must(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL),
		   "cuLaunchKernel");
}

/* Spins, then writes VALUE to WORDS words from P. */
static inline void bench_fill(CUfunction fill, CUstream stream, CUdeviceptr p, uint64_t words,
			      uint32_t value, uint64_t clocks)
{
	void *arguments[] = { &p, &words, &value, &clocks };

	bench_must(cuLaunchKernel(fill, 1, 1, 1, 128, 1, 1, 0, stream, arguments, NULL),
		   "cuLaunchKernel");
}

/* Of the device; where it does not say, a clock is a ns. */
static inline uint64_t bench_clocks(double ms)
{
	int khz = 0;

	if (cuDeviceGetAttribute(&khz, (CUdevice_attribute)BENCH_CLOCK_RATE, 0) || khz <= 0)
		khz = 1000000;
	return (uint64_t)(khz * ms);
}

static inline int bench_by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts VALUES. */
static inline double bench_median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), bench_by_size);
	return values[count / 2];
}

/* --NAME among the arguments: its value, NULL if it is not there. */
static inline const char *bench_option(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0)
			return i + 1 < argc ? argv[i + 1] : "";
	return NULL;
}

static inline long bench_number(int argc, char **argv, const char *name, long otherwise)
{
	const char *value = bench_option(argc, argv, name);

	return value ? atol(value) : otherwise;
}

static inline double bench_real(int argc, char **argv, const char *name, double otherwise)
{
	const char *value = bench_option(argc, argv, name);

	return value ? atof(value) : otherwise;
}

#endif
