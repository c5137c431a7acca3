/* SPDX-License-Identifier: MIT
 *
 * Devices: which one a thread uses, their attributes and limits, peers. properties.c has
 * cudaGetDeviceProperties().
 */
#include "standin/runtime/runtime.h"

static cudaError_t check_device(int device)
{
	int count;
	cudaError_t r = connect_driver();

	if (!r)
		r = driver.cuDeviceGetCount(&count);
	return r ? r : device < 0 || device >= count ? cudaErrorInvalidDevice : CUDA_SUCCESS;
}

/* Stores FACT in *RET, also after the runtime has ended, as NVIDIA's runtime does. */
static cudaError_t known(int *ret, const int *fact)
{
	cudaError_t r = ret ? connect_driver() : cudaErrorInvalidValue;

	if (r && r != cudaErrorCudartUnloading)
		return r;
	*ret = *fact;
	return CUDA_SUCCESS;
}

CUDART(cudaGetDeviceCount)(int *count)
{
	cudaError_t r = known(count, &driver_facts.devices);

	return done(!r && !*count ? cudaErrorNoDevice : r);
}

/* If the program made a context current by a call of the driver, returns the device of that
 * context. */
CUDART(cudaGetDevice)(int *device)
{
	CUcontext current = NULL;
	cudaError_t r = device ? check_device(0) : cudaErrorInvalidValue;

	if (r == cudaErrorInvalidDevice)
		r = cudaErrorNoDevice;
	if (!r)
		r = driver.cuCtxGetCurrent(&current);
	if (r)
		return done(r);
	*device = *thread_device();
	if (current)
		driver.cuCtxGetDevice(device);
	return done(CUDA_SUCCESS);
}

CUDART(cudaSetDevice)(int device)
{
	cudaError_t r = check_device(device);

	if (r)
		return done(r);
	*thread_device() = device;
	return done(use_device(device));
}

CUDART(cudaInitDevice)(int device, unsigned int deviceFlags, unsigned int flags)
{
	CUcontext context;
	cudaError_t r = check_device(device);

	(void)deviceFlags;
	if (!r && flags > 1)
		r = cudaErrorInvalidValue;
	return done(r ? r : primary_context(device, &context));
}

CUDART(cudaSetValidDevices)(int *devices, int count)
{
	cudaError_t r = connect_driver();

	for (int i = 0; i < count && !r; i++)
		r = check_device(devices[i]);
	return done(r);
}

CUDART(cudaChooseDevice)(int *device, const void *properties)
{
	cudaError_t r = device && properties ? check_device(0) : cudaErrorInvalidValue;

	if (!r)
		*device = 0;
	return done(r);
}

CUDART(cudaDeviceSynchronize)(void)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuCtxSynchronize());
}

CUDART(cudaDeviceReset)(void)
{
	cudaError_t r = enter();
	CUdevice device;

	if (!r)
		r = driver.cuCtxGetDevice(&device);
	return done(r ? r : reset_device(device));
}

CUDART(cudaDeviceGetAttribute)(int *value, int attribute, int device)
{
	cudaError_t r = check_device(device);

	return done(r ? r : driver.cuDeviceGetAttribute(value, attribute, device));
}

CUDART(cudaDeviceGetByPCIBusId)(int *device, const char *id)
{
	cudaError_t r = connect_driver();

	return done(r ? r : driver.cuDeviceGetByPCIBusId(device, id));
}

CUDART(cudaDeviceGetPCIBusId)(char *id, int length, int device)
{
	cudaError_t r = check_device(device);

	return done(r ? r : driver.cuDeviceGetPCIBusId(id, length, device));
}

CUDART(cudaDeviceGetLimit)(size_t *value, int limit)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuCtxGetLimit(value, limit));
}

CUDART(cudaDeviceSetLimit)(int limit, size_t value)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuCtxSetLimit(limit, value));
}

CUDART(cudaDeviceGetCacheConfig)(int *config)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuCtxGetCacheConfig(config));
}

CUDART(cudaDeviceSetCacheConfig)(int config)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuCtxSetCacheConfig(config));
}

CUDART(cudaDeviceGetStreamPriorityRange)(int *least, int *greatest)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuCtxGetStreamPriorityRange(least, greatest));
}

CUDART(cudaSetDeviceFlags)(unsigned int flags)
{
	cudaError_t r = connect_driver();

	return done(r ? r : driver.cuDevicePrimaryCtxSetFlags(*thread_device(), flags));
}

CUDART(cudaGetDeviceFlags)(unsigned int *flags)
{
	cudaError_t r = flags ? connect_driver() : cudaErrorInvalidValue;
	int active;

	return done(r ? r : driver.cuDevicePrimaryCtxGetState(*thread_device(), flags, &active));
}

CUDART(cudaDeviceCanAccessPeer)(int *can, int device, int peer)
{
	cudaError_t r = check_device(device);

	return done(r ? r : driver.cuDeviceCanAccessPeer(can, device, peer));
}

CUDART(cudaDeviceEnablePeerAccess)(int peer, unsigned int flags)
{
	CUcontext context;
	cudaError_t r = enter();

	if (!r)
		r = check_device(peer);
	if (!r)
		r = primary_context(peer, &context);
	return done(r ? r : driver.cuCtxEnablePeerAccess(context, flags));
}

CUDART(cudaDeviceDisablePeerAccess)(int peer)
{
	CUcontext context;
	cudaError_t r = enter();

	if (!r)
		r = check_device(peer);
	if (!r)
		r = primary_context(peer, &context);
	return done(r ? r : driver.cuCtxDisablePeerAccess(context));
}

CUDART(cudaDeviceGraphMemTrim)(int device)
{
	cudaError_t r = check_device(device);

	return done(r ? r : driver.cuDeviceGraphMemTrim(device));
}

/* ---- versions, and functions of the driver by name ---- */

CUDART(cudaDriverGetVersion)(int *version)
{
	return done(known(version, &driver_facts.version));
}

#define VERSION (CUDART_MAJOR == 12 ? 12090 : 13000)

CUDART(cudaRuntimeGetVersion)(int *version)
{
	if (!version)
		return done(cudaErrorInvalidValue);
	*version = VERSION;
	return CUDA_SUCCESS;
}

static cudaError_t entry_point(const char *symbol, void **function, int version,
			       unsigned long long flags, int *status)
{
	cudaError_t r = symbol && function ? enter() : cudaErrorInvalidValue;
	int found;

	return done(r ? r : driver.cuGetProcAddress(symbol, function, version, flags,
						    status ? status : &found));
}

CUDART(cudaGetDriverEntryPoint)
(const char *symbol, void **function, unsigned long long flags, int *status)
{
	return entry_point(symbol, function, VERSION, flags, status);
}

CUDART(cudaGetDriverEntryPoint_ptsz)
(const char *symbol, void **function, unsigned long long flags, int *status)
{
	return entry_point(symbol, function, VERSION, flags ? flags : 2, status);
}

CUDART(cudaGetDriverEntryPointByVersion)
(const char *symbol, void **function, unsigned int version, unsigned long long flags, int *status)
{
	return entry_point(symbol, function, (int)version, flags, status);
}

CUDART(cudaGetDriverEntryPointByVersion_ptsz)
(const char *symbol, void **function, unsigned int version, unsigned long long flags, int *status)
{
	return entry_point(symbol, function, (int)version, flags ? flags : 2, status);
}

CUDART(cudaProfilerStart)(void)
{
	return done(enter());
}

CUDART(cudaProfilerStop)(void)
{
	return done(enter());
}
