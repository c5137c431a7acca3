/* SPDX-License-Identifier: MIT
 *
 * The driver's calls that torture and waits make, declared as cuda.h has them: both are linked
 * with any libcuda.so.1, NVIDIA's or the stand-in, and need no toolkit.
 */
#ifndef GPULEAK_TESTS_TORTURE_DRIVER_H
#define GPULEAK_TESTS_TORTURE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, CAPTURE_UNSUPPORTED = 900,
       CAPTURE_INVALIDATED = 901 };
enum { STREAM_BLOCKING = 0, STREAM_NON_BLOCKING = 1 };
enum { CAPTURE_GLOBAL = 0, CAPTURE_THREAD_LOCAL = 1, CAPTURE_RELAXED = 2 };
enum { EVENT_DISABLE_TIMING = 2 };
enum {
	ATTRIBUTE_CONTEXT = 1,
	ATTRIBUTE_MEMORY_TYPE = 2,
	ATTRIBUTE_DEVICE_ORDINAL = 9,
	ATTRIBUTE_RANGE_START = 11,
	ATTRIBUTE_RANGE_SIZE = 12,
};
#define STREAM_LEGACY ((CUstream)1)
#define STREAM_PER_THREAD ((CUstream)2)

CUresult cuInit(unsigned int flags);
CUresult cuDeviceGetCount(int *count);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device);
CUresult cuCtxDestroy_v2(CUcontext context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxSynchronize(void);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction f, unsigned int grid_x, unsigned int grid_y,
			unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared, CUstream stream, void **params,
			void **extra);
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int grid_x, unsigned int grid_y,
			     unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			     unsigned int block_z, unsigned int shared, CUstream stream,
			     void **params, void **extra);

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
CUresult cuMemAllocHost_v2(void **address, size_t bytes);
CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned int flags);
CUresult cuMemFreeHost(void *address);
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address);
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address);

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t words, CUstream stream);

CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuThreadExchangeStreamCaptureMode(int *mode);
CUresult cuEventCreate(CUevent *event, unsigned int flags);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventSynchronize(CUevent event);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuGraphExecDestroy(CUgraphExec exec);
CUresult cuGraphDestroy(CUgraph graph);

#endif
