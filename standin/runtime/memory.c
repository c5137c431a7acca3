/* SPDX-License-Identifier: MIT
 *
 * Linear memory: of the device, managed, of the host, in the order of a stream, of pools. Each call
 * is the driver's. A size of 0 gives NULL, and NULL may be freed.
 */
#include <string.h>

#include "standin/runtime/runtime.h"

static CUdeviceptr address_of(const void *p)
{
	return (CUdeviceptr)(uintptr_t)p;
}

CUDART(cudaMalloc)(void **address, size_t bytes)
{
	cudaError_t r = address ? enter() : cudaErrorInvalidValue;
	CUdeviceptr got = 0;

	if (!r && bytes)
		r = driver.cuMemAlloc(&got, bytes);
	if (address)
		*address = (void *)(uintptr_t)got;
	return done(r);
}

CUDART(cudaFree)(void *address)
{
	cudaError_t r = enter();

	return done(r || !address ? r : driver.cuMemFree(address_of(address)));
}

CUDART(cudaMallocPitch)(void **address, size_t *pitch, size_t width, size_t height)
{
	cudaError_t r = address && pitch ? enter() : cudaErrorInvalidValue;
	CUdeviceptr got = 0;

	if (r)
		return done(r);
	*pitch = 0;
	if (width && height)
		r = driver.cuMemAllocPitch(&got, pitch, width, height, 4);
	*address = (void *)(uintptr_t)got;
	return done(r);
}

CUDART(cudaMalloc3D)(struct pitched *ret, struct extent extent)
{
	cudaError_t r = ret ? enter() : cudaErrorInvalidValue;
	CUdeviceptr got = 0;
	size_t pitch = 0;

	if (r)
		return done(r);
	if (extent.width && extent.height && extent.depth)
		r = driver.cuMemAllocPitch(&got, &pitch, extent.width,
					   extent.height * extent.depth, 4);
	if (!r)
		*ret = (struct pitched){ (void *)(uintptr_t)got, pitch, extent.width,
					 extent.height };
	return done(r);
}

CUDART(cudaMallocManaged)(void **address, size_t bytes, unsigned int flags)
{
	cudaError_t r = address && bytes ? enter() : cudaErrorInvalidValue;
	CUdeviceptr got = 0;

	if (!r)
		r = driver.cuMemAllocManaged(&got, bytes, flags);
	if (!r)
		*address = (void *)(uintptr_t)got;
	return done(r);
}

/* ---- host ---- */

CUDART(cudaHostAlloc)(void **address, size_t bytes, unsigned int flags)
{
	cudaError_t r = address ? enter() : cudaErrorInvalidValue;

	return done(r ? r : driver.cuMemHostAlloc(address, bytes, flags));
}

CUDART(cudaMallocHost)(void **address, size_t bytes)
{
	cudaError_t r = address ? enter() : cudaErrorInvalidValue;

	return done(r ? r : driver.cuMemHostAlloc(address, bytes, 0));
}

CUDART(cudaFreeHost)(void *address)
{
	cudaError_t r = enter();

	return done(r || !address ? r : driver.cuMemFreeHost(address));
}

CUDART(cudaHostRegister)(void *address, size_t bytes, unsigned int flags)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemHostRegister(address, bytes, flags));
}

CUDART(cudaHostUnregister)(void *address)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemHostUnregister(address));
}

CUDART(cudaHostGetDevicePointer)(void **device, void *host, unsigned int flags)
{
	cudaError_t r = device ? enter() : cudaErrorInvalidValue;
	CUdeviceptr got = 0;

	if (!r)
		r = driver.cuMemHostGetDevicePointer(&got, host, flags);
	if (!r)
		*device = (void *)(uintptr_t)got;
	return done(r);
}

CUDART(cudaHostGetFlags)(unsigned int *flags, void *address)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemHostGetFlags(flags, address));
}

CUDART(cudaMemGetInfo)(size_t *unused, size_t *total)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemGetInfo(unused, total));
}

/* ---- in the order of a stream ---- */

CUDART_STREAM(cudaMallocAsync, (void **address, size_t bytes, CUstream stream),
	      (address, bytes, stream))
{
	cudaError_t r = address ? enter() : cudaErrorInvalidValue;
	CUdeviceptr got = 0;

	if (!r && bytes)
		r = driver.cuMemAllocAsync(&got, bytes, stream);
	if (address)
		*address = (void *)(uintptr_t)got;
	return done(r);
}

CUDART_STREAM(cudaMallocFromPoolAsync,
	      (void **address, size_t bytes, CUmemoryPool pool, CUstream stream),
	      (address, bytes, pool, stream))
{
	cudaError_t r = address ? enter() : cudaErrorInvalidValue;
	CUdeviceptr got = 0;

	if (!r && bytes)
		r = driver.cuMemAllocFromPoolAsync(&got, bytes, pool, stream);
	if (address)
		*address = (void *)(uintptr_t)got;
	return done(r);
}

CUDART_STREAM(cudaFreeAsync, (void *address, CUstream stream), (address, stream))
{
	cudaError_t r = enter();

	return done(r || !address ? r : driver.cuMemFreeAsync(address_of(address), stream));
}

/* ---- what a pointer is, and where managed memory should be ---- */

enum { MEMORY_TYPE = 2, DEVICE_POINTER = 3, HOST_POINTER = 4, IS_MANAGED = 8, ORDINAL = 9 };
enum { UNREGISTERED, HOST, DEVICE, MANAGED };

/* struct cudaPointerAttributes, without what CUDA 13 reserves at its end */
struct attributes {
	int type, device;
	void *device_pointer, *host_pointer;
};

CUDART(cudaPointerGetAttributes)(struct attributes *ret, const void *pointer)
{
	cudaError_t r = ret ? enter() : cudaErrorInvalidValue;
	CUdeviceptr address = address_of(pointer);
	unsigned int type = 0, managed = 0;

	if (r)
		return done(r);
	memset(ret, 0, sizeof(*ret) + (CUDART_MAJOR >= 13 ? 8 * sizeof(long) : 0));
	if (driver.cuPointerGetAttribute(&type, MEMORY_TYPE, address)) {
		ret->device = -2; /* no device */
		ret->host_pointer = (void *)(uintptr_t)pointer;
		return CUDA_SUCCESS;
	}
	driver.cuPointerGetAttribute(&managed, IS_MANAGED, address);
	ret->type = managed ? MANAGED : (int)type;
	driver.cuPointerGetAttribute(&ret->device, ORDINAL, address);
	driver.cuPointerGetAttribute(&ret->device_pointer, DEVICE_POINTER, address);
	if (ret->type != DEVICE)
		driver.cuPointerGetAttribute(&ret->host_pointer, HOST_POINTER, address);
	return CUDA_SUCCESS;
}

/* struct cudaMemLocation */
struct location {
	int type, id;
};

static cudaError_t advise(const void *address, size_t bytes, int advice, int device)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemAdvise(address_of(address), bytes, advice, device));
}

static cudaError_t prefetch(const void *address, size_t bytes, int device, CUstream stream)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemPrefetchAsync(address_of(address), bytes, device, stream));
}

#if CUDART_MAJOR == 12
CUDART(cudaMemAdvise)(const void *address, size_t bytes, int advice, int device)
{
	return advise(address, bytes, advice, device);
}

CUDART(cudaMemAdvise_v2)(const void *address, size_t bytes, int advice, struct location location)
{
	return advise(address, bytes, advice, location.id);
}

CUDART_STREAM(cudaMemPrefetchAsync,
	      (const void *address, size_t bytes, int device, CUstream stream),
	      (address, bytes, device, stream))
{
	return prefetch(address, bytes, device, stream);
}

CUDART_STREAM(cudaMemPrefetchAsync_v2,
	      (const void *address, size_t bytes, struct location location, unsigned int flags,
	       CUstream stream),
	      (address, bytes, location, flags, stream))
{
	(void)flags;
	return prefetch(address, bytes, location.id, stream);
}
#else
CUDART(cudaMemAdvise)(const void *address, size_t bytes, int advice, struct location location)
{
	return advise(address, bytes, advice, location.id);
}

CUDART_STREAM(cudaMemPrefetchAsync,
	      (const void *address, size_t bytes, struct location location, unsigned int flags,
	       CUstream stream),
	      (address, bytes, location, flags, stream))
{
	(void)flags;
	return prefetch(address, bytes, location.id, stream);
}
#endif

/* ---- between processes ---- */

CUDART(cudaIpcGetMemHandle)(void *handle, void *address)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuIpcGetMemHandle(handle, address_of(address)));
}

CUDART(cudaIpcOpenMemHandle)(void **address, CUipcMemHandle handle, unsigned int flags)
{
	cudaError_t r = address ? enter() : cudaErrorInvalidValue;
	CUdeviceptr got = 0;

	if (!r)
		r = driver.cuIpcOpenMemHandle(&got, handle, flags);
	if (!r)
		*address = (void *)(uintptr_t)got;
	return done(r);
}

CUDART(cudaIpcCloseMemHandle)(void *address)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuIpcCloseMemHandle(address_of(address)));
}
