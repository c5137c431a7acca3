/* SPDX-License-Identifier: MIT
 *
 * The driver calls of the stand-in for CuPy, below functions with the names that Cython gives to
 * CuPy's: reports know its pools by them. site-packages/cupy calls them through ctypes.
 */
#include "../../programs/cu.h"

#define CALLED(name) __asm__(name) __attribute__((noinline, visibility("default")))
#define MEMORY "__pyx_f_4cupy_4cuda_6memory_"
#define PINNED "__pyx_f_4cupy_4cuda_13pinned_memory_"

CUdeviceptr malloc_device(size_t bytes) CALLED(MEMORY "_malloc");
CUdeviceptr try_malloc(size_t bytes) CALLED(MEMORY "22SingleDeviceMemoryPool__try_malloc");
void *malloc_pinned(size_t bytes) CALLED(PINNED "_malloc");
void *pool_pinned(size_t bytes) CALLED(PINNED "16PinnedMemoryPool_malloc");
void standin_free(CUdeviceptr address) CALLED("standin_free");
void standin_free_pinned(void *address) CALLED("standin_free_pinned");

static void begin_once(void)
{
	static __thread CUcontext context;

	if (context)
		return;
	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

/* Returns 0 if the device is out of memory. */
CUdeviceptr malloc_device(size_t bytes)
{
	CUdeviceptr address;

	begin_once();
	return cuMemAlloc_v2(&address, bytes) == 0 ? address : 0;
}

CUdeviceptr try_malloc(size_t bytes)
{
	CUdeviceptr address = malloc_device(bytes);

	__asm__ volatile("" : : "r"(address)); /* no tail call */
	return address;
}

void *malloc_pinned(size_t bytes)
{
	void *address;

	begin_once();
	return cuMemHostAlloc(&address, bytes, 1) == 0 ? address : NULL;
}

void *pool_pinned(size_t bytes)
{
	void *address = malloc_pinned(bytes);

	__asm__ volatile("" : : "r"(address)); /* no tail call */
	return address;
}

void standin_free(CUdeviceptr address)
{
	begin_once();
	must(cuMemFree_v2(address), "cuMemFree_v2");
}

void standin_free_pinned(void *address)
{
	begin_once();
	must(cuMemFreeHost(address), "cuMemFreeHost");
}
