/* SPDX-License-Identifier: MIT
 *
 * Memory pools. The structures and numbers of the runtime are those of the driver.
 */
#include "standin/runtime/runtime.h"

CUDART(cudaDeviceGetDefaultMemPool)(CUmemoryPool *pool, int device)
{
	cudaError_t r = connect_driver();

	return done(r ? r : driver.cuDeviceGetDefaultMemPool(pool, device));
}

CUDART(cudaDeviceGetMemPool)(CUmemoryPool *pool, int device)
{
	cudaError_t r = connect_driver();

	return done(r ? r : driver.cuDeviceGetMemPool(pool, device));
}

CUDART(cudaDeviceSetMemPool)(int device, CUmemoryPool pool)
{
	cudaError_t r = connect_driver();

	return done(r ? r : driver.cuDeviceSetMemPool(device, pool));
}

CUDART(cudaMemPoolCreate)(CUmemoryPool *pool, const void *properties)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemPoolCreate(pool, properties));
}

CUDART(cudaMemPoolDestroy)(CUmemoryPool pool)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemPoolDestroy(pool));
}

CUDART(cudaMemPoolTrimTo)(CUmemoryPool pool, size_t keep)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemPoolTrimTo(pool, keep));
}

CUDART(cudaMemPoolGetAttribute)(CUmemoryPool pool, int attribute, void *value)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemPoolGetAttribute(pool, attribute, value));
}

CUDART(cudaMemPoolSetAttribute)(CUmemoryPool pool, int attribute, void *value)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemPoolSetAttribute(pool, attribute, value));
}

CUDART(cudaMemPoolSetAccess)(CUmemoryPool pool, const void *list, size_t count)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemPoolSetAccess(pool, list, count));
}

CUDART(cudaMemPoolExportToShareableHandle)
(void *handle, CUmemoryPool pool, int type, unsigned int flags)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemPoolExportToShareableHandle(handle, pool, type, flags));
}

CUDART(cudaMemPoolImportFromShareableHandle)
(CUmemoryPool *pool, void *handle, int type, unsigned int flags)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemPoolImportFromShareableHandle(pool, handle, type, flags));
}

CUDART(cudaMemPoolExportPointer)(void *data, void *address)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemPoolExportPointer(data, (uintptr_t)address));
}

CUDART(cudaMemPoolImportPointer)(void **address, CUmemoryPool pool, void *data)
{
	cudaError_t r = address ? enter() : cudaErrorInvalidValue;
	CUdeviceptr got = 0;

	if (!r)
		r = driver.cuMemPoolImportPointer(&got, pool, data);
	if (!r)
		*address = (void *)(uintptr_t)got;
	return done(r);
}
