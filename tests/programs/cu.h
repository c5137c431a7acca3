/* SPDX-License-Identifier: MIT
 *
 * The driver calls that these programs make, declared as cuda.h has them. No program here
 * needs a toolkit. Each line that a report must name carries a marker such as "@leak" in a
 * comment; cases.py names markers, never line numbers.
 */
#ifndef GPULEAK_TESTS_PROGRAMS_CU_H
#define GPULEAK_TESTS_PROGRAMS_CU_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned int CUdeviceptr_v1; /* before CUDA 3.2 */
typedef struct CUctx_st *CUcontext;

#ifdef __cplusplus
extern "C" {
#endif
CUresult cuInit(unsigned int flags);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemAlloc(CUdeviceptr_v1 *address, unsigned int bytes);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemAllocPitch(CUdeviceptr_v1 *address, unsigned int *pitch, unsigned int width,
			 unsigned int height, unsigned int element);
CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
			    unsigned int element);
CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned int flags);
CUresult cuMemFree(CUdeviceptr_v1 address);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes, void *stream);
CUresult cuCtxSynchronize(void);
CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, void *stream);
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t bytes, void *stream);
CUresult cuMemFreeAsync(CUdeviceptr address, void *stream);
CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, void *stream);
CUresult cuMemAllocHost_v2(void **address, size_t bytes);
CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned int flags);
CUresult cuMemFreeHost(void *address);
CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned int flags);
CUresult cuMemHostUnregister(void *address);
struct array_descriptor {
	size_t width, height;
	int format;
	unsigned int channels;
};
struct array3d_descriptor {
	size_t width, height, depth;
	int format;
	unsigned int channels, flags;
};
#define CU_AD_FORMAT_FLOAT 0x20
CUresult cuArrayCreate_v2(void **array, const struct array_descriptor *descriptor);
CUresult cuArray3DCreate_v2(void **array, const struct array3d_descriptor *descriptor);
CUresult cuArrayDestroy(void *array);
CUresult cuMipmappedArrayCreate(void **array, const struct array3d_descriptor *descriptor,
				unsigned int levels);
CUresult cuMipmappedArrayDestroy(void *array);
CUresult cuDeviceGetDefaultMemPool(void **pool, CUdevice device);
CUresult cuMemPoolCreate(void **pool, const void *properties);
CUresult cuMemPoolExportToShareableHandle(void *handle, void *pool, int type,
					  unsigned long long flags);
CUresult cuMemPoolImportFromShareableHandle(void **pool, void *handle, int type,
					    unsigned long long flags);
CUresult cuMemPoolExportPointer(void *data, CUdeviceptr address);
CUresult cuMemPoolImportPointer(CUdeviceptr *address, void *pool, void *data);
CUresult cuMemPoolDestroy(void *pool);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, void *pool, void *stream);
CUresult cuStreamCreate(void **stream, unsigned int flags);
CUresult cuStreamDestroy_v2(void *stream);
CUresult cuStreamBeginCapture_v2(void *stream, int mode);
CUresult cuStreamEndCapture(void *stream, void **graph);
#ifdef __cplusplus
}
#endif

#define CU_MEM_ATTACH_GLOBAL 1

static inline void must(CUresult r, const char *what)
{
	if (r == 0)
		return;
	printf("%s: %d\n", what, r);
	exit(1);
}

/* A program's first GPU calls: the primary context of device 0 is current from here on. */
static inline void begin(void)
{
	CUcontext context;

	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain"); /* @retain */
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

#endif
