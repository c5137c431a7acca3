/* SPDX-License-Identifier: MIT
 *
 * A profiler that takes the place of the driver, as ncu does when it is preloaded. A program that
 * opens the driver gets the first library of the global scope that has the driver's functions.
 * cuGetProcAddress_v2() answers functions that no library exports. Prints at exit how many
 * allocations it saw.
 */
#include <dlfcn.h>
#include <string.h>

#include "cu.h"

#define FORWARD(name, ...) ((__typeof__(&(name)))dlsym(driver(), #name))(__VA_ARGS__)

typedef void *open_file(const char *file, int flags);

static int allocations;

static void *real_open(const char *file, int flags)
{
	return ((open_file *)dlsym(RTLD_NEXT, "dlopen"))(file, flags);
}

static void *driver(void)
{
	static void *handle;

	if (!handle)
		handle = real_open("libcuda.so.1", RTLD_NOW);
	return handle;
}

void *dlopen(const char *file, int flags)
{
	Dl_info info;

	if (!file || !strstr(file, "libcuda.so.1") || !dladdr(dlsym(RTLD_DEFAULT, "cuInit"), &info))
		return real_open(file, flags);
	return real_open(info.dli_fname, flags);
}

CUresult cuInit(unsigned int flags)
{
	return FORWARD(cuInit, flags);
}

CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGetCount(int *count)
{
	return ((CUresult (*)(int *))dlsym(driver(), "cuDeviceGetCount"))(count);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	return FORWARD(cuDevicePrimaryCtxRetain, context, device);
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	return FORWARD(cuCtxSetCurrent, context);
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	allocations++;
	return FORWARD(cuMemAlloc_v2, address, bytes);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	return FORWARD(cuMemFree_v2, address);
}

static CUresult own_alloc(CUdeviceptr *address, size_t bytes)
{
	allocations++;
	return FORWARD(cuMemAlloc_v2, address, bytes);
}

static CUresult own_free(CUdeviceptr address)
{
	return FORWARD(cuMemFree_v2, address);
}

typedef CUresult look_up(const char *name, void **function, int version, unsigned long long flags,
			 void *status);
look_up cuGetProcAddress_v2;

CUresult cuGetProcAddress_v2(const char *name, void **function, int version,
			     unsigned long long flags, void *status)
{
	look_up *next = (look_up *)dlsym(driver(), "cuGetProcAddress_v2");
	CUresult r = next(name, function, version, flags, status);

	if (strcmp(name, "cuMemAlloc") == 0)
		*function = (void *)own_alloc;
	else if (strcmp(name, "cuMemFree") == 0)
		*function = (void *)own_free;
	return r;
}

__attribute__((destructor)) static void say(void)
{
	printf("profiler: %d allocations\n", allocations);
}
