/* SPDX-License-Identifier: MIT
 *
 * The self-test's cases for pools, arrays, virtual memory, IPC and external memory. What they
 * state is what cuda.h documents, or a choice that README.md names: nothing here was recorded.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "selftest.h"

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps);
CUresult cuMemPoolDestroy(CUmemoryPool pool);
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep);
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attr, void *value);
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attr, void *value);
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev);
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev);
CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
				 CUstream hStream);
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
				      CUstream hStream);
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
		     const CUmemAllocationProp *prop, unsigned long long flags);
CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr);
CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
			     unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size);
CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
		  unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size);
CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count);
CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
				       int option);
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						CUmemGenericAllocationHandle handle);
CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType handleType,
				      unsigned long long flags);
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev);
CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
				   int option);
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr ptr);
CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray);
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray);
CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray);
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray);
CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
				  unsigned int level);
CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr);
CUresult cuStreamSynchronize(CUstream hStream);

enum { STORM_THREADS = 8, STORM_ROUNDS = 500 };

static size_t in_use(void)
{
	size_t unused, total;

	IS(cuMemGetInfo_v2(&unused, &total), 0);
	return total - unused;
}

static void storm(void *(*run)(void *), CUcontext ctx)
{
	pthread_t t[STORM_THREADS];

	for (int i = 0; i < STORM_THREADS; i++)
		IS(pthread_create(&t[i], NULL, run, ctx), 0);
	for (int i = 0; i < STORM_THREADS; i++)
		IS(pthread_join(t[i], NULL), 0);
}

static CUmemPoolProps pool_properties(int device)
{
	return (CUmemPoolProps){ .allocType = ALLOCATION_PINNED,
				 .location = { LOCATION_DEVICE, device } };
}

static CUmemoryPool pool(int device, size_t limit)
{
	CUmemPoolProps props = pool_properties(device);
	CUmemoryPool made = NULL;

	props.maxSize = limit;
	IS(cuMemPoolCreate(&made, &props), 0);
	IS(made != NULL, 1);
	return made;
}

static void pools_refuse(void)
{
	CUmemPoolProps props = pool_properties(0), bad = pool_properties(2);
	CUmemAccessDesc access = { { LOCATION_DEVICE, 1 }, 3 };
	CUmemoryPool p, none = NULL;

	IS(cuMemPoolCreate(NULL, &props), 1);
	IS(cuMemPoolCreate(&p, NULL), 1);
	IS(cuMemPoolCreate(&p, &bad), 1);
	bad.allocType = 0;
	IS(cuMemPoolCreate(&p, &bad), 1);
	props.location.type = LOCATION_HOST;
	IS(cuMemPoolCreate(&p, &props), 801);
	IS(cuDeviceGetMemPool(NULL, 0), 1);
	IS(cuDeviceGetMemPool(&p, 2), 101);
	IS(cuDeviceSetMemPool(2, p), 101);
	IS(cuDeviceGetDefaultMemPool(&p, 1), 0);
	IS(cuDeviceSetMemPool(0, p), 1);
	IS(cuMemPoolDestroy(p), 1);
	IS(cuMemPoolDestroy(none), 1);
	IS(cuMemPoolTrimTo((CUmemoryPool)&props, 0), 1);
	IS(cuMemPoolSetAccess(p, &access, 1), 0);
	access.location.id = 2;
	IS(cuMemPoolSetAccess(p, &access, 1), 101);
	IS(cuMemPoolSetAccess(p, &access, 0), 1);
	IS(cuMemPoolSetAccess(p, NULL, 1), 1);
}

/* STANDIN_DEVICES=2 */
void case_pools(void)
{
	CUmemoryPool p, q, standard, now;
	CUcontext ctx, primary;
	CUdeviceptr d, e = 77;

	IS(cuMemPoolCreate(&p, NULL), 3);
	IS(cuInit(0), 0);
	p = pool(0, 0); /* needs no context, but to allocate does */
	IS(cuMemAllocFromPoolAsync(&d, 100, p, NULL), 201);
	ctx = begin();
	pools_refuse();
	IS(cuMemAllocFromPoolAsync(&e, 0, p, NULL), 0);
	IS(e, 0);
	IS(cuMemAllocFromPoolAsync(NULL, 100, p, NULL), 1);
	IS(cuMemAllocFromPoolAsync(&e, 100, NULL, NULL), 1);
	IS(cuMemAllocFromPoolAsync_ptsz(&d, 3 << 20, p, NULL), 0);
	IS(in_use(), 4 << 20);
	IS(cuMemFreeAsync(d, NULL), 0);
	IS(cuMemFreeAsync(d, NULL), 1);
	IS(cuMemAllocFromPoolAsync(&d, 3 << 20, p, NULL), 0);
	IS(cuMemPoolDestroy(p), 0); /* lives on for the block */
	IS(cuMemPoolDestroy(p), 1);
	IS(cuMemAllocFromPoolAsync(&e, 100, p, NULL), 1);
	IS(pool(0, 0) != p, 1);
	IS(cuMemFree_v2(d), 0);
	IS(in_use(), 0);
	IS(pool(0, 0) != p, 1); /* its handle comes again late */
	p = pool(0, 0);
	IS(cuMemPoolDestroy(p), 0);
	IS(cuDevicePrimaryCtxRetain(&primary, 1), 0);
	IS(cuCtxPushCurrent_v2(primary), 0);
	q = pool(1, 0);
	IS(cuDeviceSetMemPool(1, q), 0);
	IS(cuMemAllocAsync(&d, 100, NULL), 0);
	IS(cuDevicePrimaryCtxReset_v2(1), 0);
	IS(cuDeviceGetMemPool(&now, 1), 0);
	IS(now == q, 1);
	IS(cuMemPoolDestroy(q), 0);
	IS(cuDeviceGetMemPool(&now, 1), 0);
	IS(cuDeviceGetDefaultMemPool(&standard, 1), 0);
	IS(now == standard, 1);
	IS(cuCtxSetCurrent(ctx), 0);
	IS(cuMemFreeAsync(d, NULL), 0);
}

static uint64_t number(CUmemoryPool p, int attribute)
{
	uint64_t n = 77;

	IS(cuMemPoolGetAttribute(p, attribute, &n), 0);
	return n;
}

static void counts(CUmemoryPool p, uint64_t reserved, uint64_t reserved_high, uint64_t used,
		   uint64_t used_high)
{
	IS(number(p, 5), reserved);
	IS(number(p, 6), reserved_high);
	IS(number(p, 7), used);
	IS(number(p, 8), used_high);
}

void case_pool_counts(void)
{
	const uint64_t step = 32 << 20;
	CUmemoryPool p, full;
	CUdeviceptr d[2], e;
	uint64_t n = 0;
	int on = -1;

	begin();
	p = pool(0, 0);
	counts(p, 0, 0, 0, 0);
	IS(cuMemAllocFromPoolAsync(&d[0], 100, p, NULL), 0);
	counts(p, step, step, 100, 100);
	IS(cuMemAllocFromPoolAsync(&d[1], 33 << 20, p, NULL), 0);
	counts(p, 2 * step, 2 * step, (33 << 20) + 100, (33 << 20) + 100);
	IS(cuMemFreeAsync(d[1], NULL), 0);
	counts(p, 2 * step, 2 * step, 100, (33 << 20) + 100);
	n = 2 * step;
	IS(cuMemPoolSetAttribute(p, 4, &n), 0);
	IS(number(p, 4), n);
	IS(cuStreamSynchronize(NULL), 0); /* the threshold holds it */
	IS(number(p, 5), 2 * step);
	IS(cuMemPoolTrimTo(p, 0), 0); /* which this ignores */
	counts(p, step, 2 * step, 100, (33 << 20) + 100);
	n = 0;
	IS(cuMemPoolSetAttribute(p, 6, &n), 0);
	IS(cuMemPoolSetAttribute(p, 8, &n), 0);
	IS(cuMemPoolSetAttribute(p, 4, &n), 0);
	counts(p, step, step, 100, 100);
	IS(cuMemFreeAsync(d[0], NULL), 0);
	IS(cuStreamSynchronize(NULL), 0);
	counts(p, 0, step, 0, 100);
	n = 1;
	IS(cuMemPoolSetAttribute(p, 5, &n), 1);
	IS(cuMemPoolSetAttribute(p, 6, &n), 1);
	IS(cuMemPoolSetAttribute(p, 4, NULL), 1);
	IS(cuMemPoolGetAttribute(p, 9, &n), 1);
	IS(cuMemPoolGetAttribute(p, 3, &on), 0);
	IS(on, 1);
	full = pool(0, 1);
	IS(cuMemAllocFromPoolAsync(&d[0], step, full, NULL), 0);
	IS(cuMemAllocFromPoolAsync(&e, 1, full, NULL), 2);
	IS(e, 0);
	IS(cuMemAllocFromPoolAsync(&e, (size_t)1 << 50, p, NULL), 2);
	IS(cuMemFreeAsync(d[0], NULL), 0);
	IS(cuMemAllocFromPoolAsync(&e, 1, full, NULL), 0);
	IS(cuMemFreeAsync(e, NULL), 0);
}

/* STANDIN_FAIL=cuMemPoolCreate:1=2,cuMemAllocFromPoolAsync:2=2,cuMemPoolDestroy:1=1 */
void case_pool_faults(void)
{
	CUmemPoolProps props = pool_properties(0);
	CUdeviceptr d, e;
	CUmemoryPool p;

	begin();
	IS(cuMemPoolCreate(&p, &props), 2);
	p = pool(0, 0);
	IS(cuMemAllocFromPoolAsync(&d, 1, p, NULL), 0);
	IS(cuMemAllocFromPoolAsync(&e, 1, p, NULL), 2);
	IS(cuMemFreeAsync(d, NULL), 0);
	IS(number(p, 8), 1);
	IS(cuMemPoolDestroy(p), 1);
	IS(cuMemPoolDestroy(p), 0);
}

static void *pool_storm(void *ctx)
{
	CUdeviceptr d, e;
	CUmemoryPool p;

	IS(cuCtxSetCurrent(ctx), 0);
	for (int i = 0; i < STORM_ROUNDS; i++) {
		p = pool(0, 0);
		IS(cuMemAllocFromPoolAsync(&d, 100, p, NULL), 0);
		IS(cuMemAllocAsync(&e, 3 << 20, NULL), 0);
		IS(cuMemPoolDestroy(p), 0);
		IS(cuMemFreeAsync(e, NULL), 0);
		IS(cuMemFree_v2(d), 0);
	}
	return NULL;
}

void case_pool_storm(void)
{
	CUmemoryPool standard;

	storm(pool_storm, begin());
	IS(in_use(), 0);
	IS(cuDeviceGetDefaultMemPool(&standard, 0), 0);
	IS(number(standard, 7), 0);
	IS(number(standard, 8) <= STORM_THREADS * (3 << 20), 1);
}

/* The lines that a call of this process left in the log, one after the other. */
static FILE *begin_log(char path[static 32])
{
	FILE *in;

	strcpy(path, "/tmp/standin-selftest.XXXXXX");
	IS(mkstemp(path) >= 0, 1);
	setenv("STANDIN_LOG", path, 1);
	begin();
	in = fopen(path, "r");
	IS(in != NULL, 1);
	return in;
}

static void was_logged(FILE *in, const char *name, uint64_t address, uint64_t bytes, int result)
{
	char line[256], want[256];

	snprintf(want, sizeof(want), "%d %s 0x%llx %llu %d\n", (int)getpid(), name,
		 (unsigned long long)address, (unsigned long long)bytes, result);
	IS(fgets(line, sizeof(line), in) != NULL, 1);
	if (strcmp(line, want))
		printf("# %s# instead of %s", line, want);
	IS(strcmp(line, want), 0);
}

static const size_t grain = 2 << 20;

static CUmemAllocationProp physical_properties(void)
{
	return (CUmemAllocationProp){ .type = ALLOCATION_PINNED,
				      .location = { LOCATION_DEVICE, 0 } };
}

static CUmemGenericAllocationHandle physical(size_t bytes)
{
	CUmemAllocationProp prop = physical_properties();
	CUmemGenericAllocationHandle h = 0;

	IS(cuMemCreate(&h, bytes, &prop, 0), 0);
	return h;
}

static CUdeviceptr reserve(size_t bytes)
{
	CUdeviceptr d = 0;

	IS(cuMemAddressReserve(&d, bytes, 0, 0, 0), 0);
	return d;
}

static void virtual_refuses(void)
{
	CUmemAllocationProp prop = physical_properties();
	CUmemGenericAllocationHandle h;
	size_t n = 0;

	IS(cuMemCreate(&h, grain + 4096, &prop, 0), 1);
	IS(cuMemCreate(&h, 0, &prop, 0), 1);
	IS(cuMemCreate(&h, grain, &prop, 1), 1);
	IS(cuMemCreate(&h, grain, NULL, 0), 1);
	IS(cuMemCreate(NULL, grain, &prop, 0), 1);
	IS(cuMemCreate(&h, 66 << 20, &prop, 0), 2);
	IS(cuMemGetAllocationGranularity(&n, &prop, 1), 0);
	IS(n, grain);
	IS(cuMemGetAllocationGranularity(&n, &prop, 2), 1);
	prop.location.id = 1;
	IS(cuMemCreate(&h, grain, &prop, 0), 101);
	prop.type = 0;
	IS(cuMemGetAllocationGranularity(&n, &prop, 0), 1);
	IS(cuMemRelease(0), 1);
	IS(cuMemRelease((uintptr_t)&prop), 1);
}

/* STANDIN_MEMORY=64 MiB. What keeps physical memory, and what does not. */
void case_virtual(void)
{
	CUmemAccessDesc access = { { LOCATION_DEVICE, 0 }, 3 };
	CUmemAllocationProp prop = physical_properties(), told;
	CUmemGenericAllocationHandle h, again;
	CUdeviceptr d, e, base;
	size_t size;
	int ordinal = -1;

	IS(cuMemRelease(1), 3);
	begin();
	virtual_refuses();
	prop.requestedHandleTypes = 1;
	IS(cuMemCreate(&h, 64 << 20, &prop, 0), 0);
	IS(in_use(), 64 << 20);
	IS(cuMemAlloc_v2(&d, 1), 2);
	IS(cuMemGetAllocationPropertiesFromHandle(&told, h), 0);
	IS(memcmp(&told, &prop, sizeof(told)), 0);
	d = reserve(128 << 20);
	e = d + (64 << 20);
	IS(cuMemMap(d, 64 << 20, 0, h, 0), 0);
	IS(cuMemMap(e, 64 << 20, 0, h, 0), 0);
	IS(cuMemSetAccess(d, 128 << 20, &access, 1), 0);
	IS(cuMemGetAddressRange_v2(&base, &size, e + 5), 0);
	IS(base, e);
	IS(size, 64 << 20);
	IS(cuPointerGetAttribute(&ordinal, 9, d), 0);
	IS(ordinal, 0);
	IS(cuMemFree_v2(d), 1);
	IS(cuMemFreeAsync(d, NULL), 1);
	IS(cuMemRelease(h), 0);
	IS(cuMemRelease(h), 1);
	IS(cuMemMap(d, 64 << 20, 0, h, 0), 1);
	IS(cuMemGetAllocationPropertiesFromHandle(&told, h), 1);
	IS(cuMemUnmap(d, 64 << 20), 0);
	IS(in_use(), 64 << 20);
	IS(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(e + 5)), 0);
	IS(again, h);
	IS(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)d), 1);
	IS(cuMemUnmap(e, 64 << 20), 0);
	IS(in_use(), 64 << 20);
	IS(cuMemRelease(h), 0);
	IS(in_use(), 0);
	IS(cuMemRelease(h), 1);
	IS(cuMemGetAddressRange_v2(&base, &size, e), 500);
	IS(cuMemAddressFree(d, 128 << 20), 0);
}

static void reserving(void)
{
	CUdeviceptr d = reserve(3 * grain), e, f;

	IS(cuMemAddressReserve(&e, 100, 0, 0, 0), 1);
	IS(cuMemAddressReserve(&e, 0, 0, 0, 0), 1);
	IS(cuMemAddressReserve(&e, grain, 3, 0, 0), 1);
	IS(cuMemAddressReserve(&e, grain, 0, 1, 0), 1);
	IS(cuMemAddressReserve(&e, grain, 0, 0, 1), 1);
	IS(cuMemAddressReserve(NULL, grain, 0, 0, 0), 1);
	IS(cuMemAddressReserve(&e, (size_t)1 << 50, 0, 0, 0), 2);
	IS(cuMemAddressReserve(&e, grain, 0, d + 8 * grain, 0), 0);
	IS(e, d + 8 * grain);
	IS(cuMemAddressReserve(&f, 4096, 0, 0, 0), 1);
	IS(cuMemAddressReserve(&f, grain, (size_t)1 << 30, e, 0), 0); /* taken: elsewhere */
	IS(f % (1 << 30), 0);
	IS(reserve(5 * grain), d + 3 * grain); /* fits the gap */
	IS(cuMemAddressFree(d, grain), 1);
	IS(cuMemAddressFree(d + grain, 2 * grain), 1);
	IS(cuMemAddressFree(d + 3 * grain, 5 * grain), 0);
	IS(cuMemAddressFree(f, grain), 0);
	IS(cuMemAddressFree(e, grain), 0);
	IS(cuMemAddressFree(d, 3 * grain), 0);
	IS(cuMemAddressFree(d, 3 * grain), 1);
	IS(reserve(grain), d);
	IS(cuMemAddressFree(d, grain), 0);
}

void case_virtual_ranges(void)
{
	CUmemAccessDesc access = { { LOCATION_DEVICE, 0 }, 2 };
	CUcontext ctx, primary;
	CUmemGenericAllocationHandle h, small;
	CUdeviceptr d;

	ctx = begin();
	reserving();
	h = physical(2 * grain);
	small = physical(grain);
	d = reserve(8 * grain);
	IS(cuMemMap(d + 4096, grain, 0, h, 0), 801);
	IS(cuMemMap(d, grain, grain, h, 0), 801);
	IS(cuMemMap(d, grain, 0, h, 0), 801);
	IS(cuMemMap(d, 3 * grain, 0, h, 0), 801);
	IS(cuMemMap(d + 7 * grain, 2 * grain, 0, h, 0), 1);
	IS(cuMemMap(d - grain, grain, 0, small, 0), 1);
	IS(cuMemMap(d, 2 * grain, 0, h, 1), 1);
	for (int i = 0; i < 3; i++) /* 0-2, 2-4, 4-6 */
		IS(cuMemMap(d + 2 * i * grain, 2 * grain, 0, h, 0), 0);
	IS(cuMemMap(d + 7 * grain, grain, 0, small, 0), 0);
	IS(cuMemMap(d + 5 * grain, 2 * grain, 0, h, 0), 1);
	IS(cuMemAddressFree(d, 8 * grain), 1);
	IS(cuMemUnmap(d, grain), 1);
	IS(cuMemUnmap(d + grain, 3 * grain), 1);
	IS(cuMemUnmap(d + 8 * grain, grain), 1);
	IS(cuMemUnmap(d + 6 * grain, grain), 0); /* nothing there */
	IS(cuMemUnmap(d, 0), 1);
	IS(cuMemSetAccess(d, 6 * grain, &access, 1), 1);
	access.flags = 1;
	IS(cuMemSetAccess(d, 6 * grain, &access, 1), 0);
	IS(cuMemSetAccess(d, 8 * grain, &access, 1), 1);
	IS(cuMemSetAccess(d, 6 * grain, NULL, 1), 1);
	IS(cuDevicePrimaryCtxRetain(&primary, 0), 0);
	IS(cuDevicePrimaryCtxReset_v2(0), 0);
	IS(cuCtxDestroy_v2(ctx), 0); /* nothing of it is a context's */
	IS(cuMemUnmap(d, 2 * grain), 0);
	IS(cuMemUnmap(d, 8 * grain), 0); /* with holes */
	IS(cuMemUnmap(d, 8 * grain), 0);
	IS(cuMemRelease(h), 0);
	IS(cuMemRelease(small), 0);
	IS(cuMemAddressFree(d, 8 * grain), 0);
}

/* STANDIN_FAIL=cuMemCreate:1=2,cuMemMap:1=1,cuMemUnmap:1=999,cuMemRelease:1=1 */
void case_virtual_faults(void)
{
	CUmemAllocationProp prop = physical_properties();
	CUmemGenericAllocationHandle h;
	CUdeviceptr d;
	char path[32];
	FILE *in = begin_log(path);

	IS(cuMemCreate(&h, grain, &prop, 0), 2);
	was_logged(in, "cuMemCreate", 0, grain, 2);
	h = physical(grain);
	was_logged(in, "cuMemCreate", h, grain, 0);
	d = reserve(grain);
	was_logged(in, "cuMemAddressReserve", d, grain, 0);
	IS(cuMemMap(d, grain, 0, h, 0), 1);
	IS(cuMemMap(d, grain, 0, h, 0), 0);
	was_logged(in, "cuMemMap", d, grain, 1);
	was_logged(in, "cuMemMap", d, grain, 0);
	IS(cuMemRelease(h), 1);
	IS(cuMemRelease(h), 0);
	was_logged(in, "cuMemRelease", h, 0, 1);
	was_logged(in, "cuMemRelease", h, 0, 0);
	IS(cuMemUnmap(d, grain), 999);
	IS(in_use(), grain);
	IS(cuMemUnmap(d, grain), 0);
	IS(in_use(), 0);
	unlink(path);
}

/* What a file descriptor keeps, and what it brings back. */
void case_shareable(void)
{
	CUmemAllocationProp prop = physical_properties(), told;
	CUmemGenericAllocationHandle h, again;
	CUdeviceptr d;
	int fd;

	begin();
	h = physical(grain);
	IS(cuMemExportToShareableHandle(&fd, h, 1, 0), 1); /* was not asked for */
	IS(cuMemRelease(h), 0);
	prop.requestedHandleTypes = 1;
	IS(cuMemCreate(&h, grain, &prop, 0), 0);
	IS(cuMemExportToShareableHandle(NULL, h, 1, 0), 1);
	IS(cuMemExportToShareableHandle(&fd, h, 1, 1), 1);
	IS(cuMemExportToShareableHandle(&fd, h, 8, 0), 801);
	IS(cuMemExportToShareableHandle(&fd, h, 1, 0), 0);
	IS(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)-1, 1), 1);
	IS(cuMemImportFromShareableHandle(NULL, (void *)(intptr_t)fd, 1), 1);
	IS(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, 1), 0);
	IS(again == h, 0);
	IS(cuMemGetAllocationPropertiesFromHandle(&told, again), 0);
	IS(memcmp(&told, &prop, sizeof(told)), 0);
	IS(in_use(), grain);
	d = reserve(grain);
	IS(cuMemMap(d, grain, 0, again, 0), 0);
	IS(cuMemRelease(h), 0);
	IS(cuMemRelease(again), 0);
	IS(in_use(), grain);
	IS(cuMemUnmap(d, grain), 0);
	IS(in_use(), 0);
	IS(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, 1), 0); /* as another's */
	IS(in_use(), 0);
	IS(cuMemRelease(again), 0);
	IS(cuMemAddressFree(d, grain), 0);
	IS(close(fd), 0);
}

static void multicast_refuses(CUmemGenericAllocationHandle mc, CUmemGenericAllocationHandle h)
{
	IS(cuMulticastBindMem(mc, 0, mc, 0, grain, 0), 1);
	IS(cuMulticastBindMem(h, 0, h, 0, grain, 0), 1);
	IS(cuMulticastBindMem(mc, grain, h, 0, 2 * grain, 0), 1);
	IS(cuMulticastBindMem(mc, 4096, h, 0, grain, 0), 1);
	IS(cuMulticastBindMem(mc, 0, h, grain, 2 * grain, 0), 1);
	IS(cuMulticastBindMem(mc, 0, h, 0, grain, 1), 1);
	IS(cuMulticastBindMem(mc, 0, h, 0, 0, 0), 1);
	IS(cuMulticastUnbind(mc, 0, 0, grain), 1);
}

/* STANDIN_DEVICES=2 */
void case_multicast(void)
{
	CUmulticastObjectProp prop = { .numDevices = 2, .size = 2 * grain };
	CUmemAllocationProp other = physical_properties();
	CUmemGenericAllocationHandle mc, h, k;
	CUdeviceptr d, e;
	size_t n = 0;

	begin();
	IS(cuMulticastCreate(NULL, &prop), 1);
	IS(cuMulticastCreate(&mc, NULL), 1);
	IS(cuMulticastGetGranularity(&n, &prop, 0), 0);
	IS(n, grain);
	IS(cuMulticastCreate(&mc, &prop), 0);
	h = physical(2 * grain);
	IS(cuMulticastAddDevice(mc, 0), 0);
	IS(cuMulticastAddDevice(mc, 0), 1);
	IS(cuMulticastAddDevice(mc, 2), 101);
	IS(cuMulticastBindMem(mc, 0, h, 0, grain, 0), 1); /* the team is not complete */
	IS(cuMulticastAddDevice(mc, 1), 0);
	multicast_refuses(mc, h);
	other.location.id = 1;
	IS(cuMemCreate(&k, grain, &other, 0), 0);
	IS(cuMulticastBindMem(mc, 0, h, 0, 2 * grain, 0), 0);
	IS(cuMulticastBindMem(mc, 0, h, 0, grain, 0), 1); /* taken */
	IS(cuMulticastBindMem(mc, 0, k, 0, grain, 0), 0); /* of the other device */
	IS(cuMemRelease(h), 0);
	IS(in_use(), 2 * grain); /* bound */
	IS(cuMulticastUnbind(mc, 0, 0, grain), 1);
	IS(cuMulticastUnbind(mc, 0, 0, 2 * grain), 0);
	IS(in_use(), 0);
	d = reserve(4 * grain);
	e = d + 2 * grain;
	IS(cuMemMap(d, 2 * grain, 0, mc, 0), 0);
	h = physical(grain);
	IS(cuMemMap(e, grain, 0, h, 0), 0);
	IS(cuMulticastBindAddr(mc, grain, d, grain, 0), 1);
	IS(cuMulticastBindAddr(mc, grain, e, grain, 0), 0);
	IS(cuMemRelease(h), 0);
	IS(cuMemUnmap(e, grain), 0);
	IS(in_use(), grain);
	IS(cuMemRelease(mc), 0);
	IS(in_use(), grain); /* the object is mapped */
	IS(cuMemUnmap(d, 2 * grain), 0);
	IS(in_use(), 0); /* its bindings went with it */
	IS(cuMemRelease(k), 0);
	IS(cuMemAddressFree(d, 4 * grain), 0);
}

static void *virtual_storm(void *ctx)
{
	CUmemGenericAllocationHandle h, again;
	CUdeviceptr d;

	IS(cuCtxSetCurrent(ctx), 0);
	for (int i = 0; i < STORM_ROUNDS; i++) {
		h = physical(2 * grain);
		d = reserve(4 * grain);
		IS(cuMemMap(d, 2 * grain, 0, h, 0), 0);
		IS(cuMemMap(d + 2 * grain, 2 * grain, 0, h, 0), 0);
		IS(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)d), 0);
		IS(again, h);
		IS(cuMemRelease(h), 0);
		IS(cuMemRelease(h), 0);
		IS(cuMemUnmap(d, 4 * grain), 0);
		IS(cuMemAddressFree(d, 4 * grain), 0);
	}
	return NULL;
}

void case_virtual_storm(void)
{
	storm(virtual_storm, begin());
	IS(in_use(), 0);
}

enum { FLOATS = 0x20, BYTES = 0x01 };

static CUarray array(size_t width, size_t height)
{
	CUDA_ARRAY_DESCRIPTOR d = { width, height, FLOATS, 1 };
	CUarray a = NULL;

	IS(cuArrayCreate_v2(&a, &d), 0);
	IS(a != NULL, 1);
	return a;
}

static void array_contexts(CUcontext ctx)
{
	CUcontext other, primary;
	CUarray a, b, c;

	a = array(100, 0);
	IS(cuCtxCreate_v2(&other, 0, 0), 0);
	b = array(100, 0);
	IS(cuCtxDestroy_v2(other), 0);
	IS(cuArrayDestroy(b), 400);
	IS(cuDevicePrimaryCtxRetain(&primary, 0), 0);
	IS(cuCtxPushCurrent_v2(primary), 0);
	c = array(100, 0);
	IS(cuArrayDestroy(a), 0); /* another context's */
	IS(cuDevicePrimaryCtxReset_v2(0), 0);
	IS(cuArrayDestroy(c), 709);
	IS(cuCtxSetCurrent(ctx), 0);
	IS(cuArrayDestroy(c), 400);
	IS(in_use(), 0);
}

/* STANDIN_MEMORY=64 MiB */
void case_arrays(void)
{
	CUDA_ARRAY_DESCRIPTOR d = { 2048, 4096, FLOATS, 2 }, told;
	CUDA_ARRAY3D_DESCRIPTOR told3;
	CUDA_ARRAY_DESCRIPTOR_v1 old = { 16, 16, BYTES, 1 };
	CUcontext ctx;
	CUarray a = NULL, b;
	CUstream s;
	CUgraph graph;

	IS(cuArrayCreate_v2(&a, &d), 3);
	IS(cuInit(0), 0);
	IS(cuArrayCreate_v2(&a, &d), 201);
	ctx = begin();
	IS(cuArrayCreate_v2(NULL, &d), 1);
	IS(cuArrayCreate_v2(&a, NULL), 1);
	IS(a == NULL, 1);
	IS(cuArrayCreate_v2(&a, &d), 0);
	IS(in_use(), 64 << 20);
	IS(cuArrayCreate_v2(&b, &d), 2);
	IS(cuArrayGetDescriptor_v2(&told, a), 0);
	IS(told.Width == 2048 && told.Height == 4096, 1);
	IS(told.Format == FLOATS && told.NumChannels == 2, 1);
	IS(cuArray3DGetDescriptor_v2(&told3, a), 0);
	IS(told3.Width == 2048 && told3.Height == 4096 && !told3.Depth && !told3.Flags, 1);
	IS(cuArrayGetDescriptor_v2(NULL, a), 1);
	IS(cuMemFree_v2((uintptr_t)a), 1);
	IS(cuArrayDestroy(a), 0);
	IS(in_use(), 0);
	IS(cuArrayDestroy(a), 400);
	IS(cuArrayDestroy(NULL), 400);
	IS(cuArrayDestroy((CUarray)&d), 400);
	IS(cuArrayGetDescriptor_v2(&told, a), 400);
	IS(cuArrayCreate(&a, &old), 0);
	IS(cuArrayGetDescriptor(&old, a), 0);
	IS(old.Width, 16);
	IS(cuArrayDestroy(a), 0);
	array_contexts(ctx);
	IS(cuStreamCreate(&s, 1), 0);
	IS(cuStreamBeginCapture_v2(s, 0), 0);
	IS(cuArrayCreate_v2(&a, &d), 900);
	IS(cuStreamEndCapture(s, &graph), 901);
}

static int shape(size_t width, size_t height, size_t depth, unsigned int flags, size_t want)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { width, height, depth, FLOATS, 1, flags }, told;
	size_t before = in_use();
	CUarray a;
	int r = cuArray3DCreate_v2(&a, &d);

	if (r)
		return r;
	IS(in_use() - before, (want + 511) & ~(size_t)511);
	IS(cuArray3DGetDescriptor_v2(&told, a), 0);
	IS(told.Width == width && told.Height == height && told.Depth == depth, 1);
	IS(told.Flags, flags);
	IS(cuArrayDestroy(a), 0);
	return 0;
}

static int format(int code, unsigned int channels)
{
	CUDA_ARRAY3D_DESCRIPTOR_v1 d = { 8, 8, 8, code, channels, 0 }, told;
	CUarray a;
	int r = cuArray3DCreate(&a, &d);

	if (r)
		return r;
	IS(cuArray3DGetDescriptor(&told, a), 0);
	IS(memcmp(&told, &d, sizeof(d)), 0);
	IS(cuArrayDestroy(a), 0);
	return 0;
}

void case_array_shapes(void)
{
	enum { LAYERED = 1, SURFACE = 2, CUBEMAP = 4, GATHER = 8, SPARSE = 0x40 };

	begin();
	IS(shape(1000, 0, 0, 0, 4000), 0);
	IS(shape(100, 100, 0, SURFACE, 40000), 0);
	IS(shape(10, 10, 10, 0, 4000), 0);
	IS(shape(100, 0, 7, LAYERED, 2800), 0);
	IS(shape(10, 10, 7, LAYERED, 2800), 0);
	IS(shape(10, 10, 6, CUBEMAP, 2400), 0);
	IS(shape(10, 10, 12, CUBEMAP | LAYERED, 4800), 0);
	IS(shape(10, 10, 0, GATHER, 400), 0);
	IS(shape(10, 10, 0, SPARSE, 0), 0);
	IS(shape(0, 10, 0, 0, 0), 1);
	IS(shape(10, 0, 10, 0, 0), 1);
	IS(shape(10, 10, 0, LAYERED, 0), 1);
	IS(shape(10, 11, 6, CUBEMAP, 0), 1);
	IS(shape(10, 10, 12, CUBEMAP, 0), 1);
	IS(shape(10, 10, 7, CUBEMAP | LAYERED, 0), 1);
	IS(shape(10, 10, 10, GATHER, 0), 1);
	IS(shape(10, 10, 10, 0x200, 0), 1);
	IS(shape(131073, 0, 0, 0, 0), 1);
	IS(shape(16385, 1, 1, 0, 0), 1);
	IS(format(0x10, 4), 0);
	IS(format(0xc5, 4), 0);
	IS(format(0x20, 3), 1);
	IS(format(0x77, 1), 1);
	IS(format(0x91, 4), 801);
}

void case_mipmaps(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 16, 8, 0, FLOATS, 1, 0 }, told;
	CUmipmappedArray m, layered;
	CUarray level, again;
	CUcontext ctx = begin();

	IS(cuMipmappedArrayCreate(NULL, &d, 1), 1);
	IS(cuMipmappedArrayCreate(&m, NULL, 1), 1);
	IS(cuMipmappedArrayCreate(&m, &d, 99), 0); /* five: 16x8, 8x4, 4x2, 2x1, 1x1 */
	IS(in_use(), 1024); /* 684 */
	IS(cuMipmappedArrayGetLevel(&level, m, 3), 0);
	IS(cuMipmappedArrayGetLevel(&again, m, 3), 0);
	IS(level == again, 1);
	IS(cuArray3DGetDescriptor_v2(&told, level), 0);
	IS(told.Width == 2 && told.Height == 1 && told.Depth == 0, 1);
	IS(cuMipmappedArrayGetLevel(&again, m, 4), 0);
	IS(cuMipmappedArrayGetLevel(&again, m, 5), 1);
	IS(cuMipmappedArrayGetLevel(NULL, m, 0), 1);
	IS(cuArrayDestroy(level), 400);
	IS(cuArrayDestroy((CUarray)m), 400);
	IS(cuMipmappedArrayDestroy((CUmipmappedArray)level), 400);
	IS(cuMipmappedArrayDestroy(m), 0);
	IS(in_use(), 0);
	IS(cuMipmappedArrayDestroy(m), 400);
	IS(cuMipmappedArrayGetLevel(&again, m, 0), 400);
	IS(cuArray3DGetDescriptor_v2(&told, level), 400);
	d = (CUDA_ARRAY3D_DESCRIPTOR){ 4, 4, 100, FLOATS, 1, 1 };
	IS(cuMipmappedArrayCreate(&layered, &d, 99), 0);
	IS(cuMipmappedArrayGetLevel(&level, layered, 2), 0);
	IS(cuMipmappedArrayGetLevel(&again, layered, 3), 1);
	IS(cuArray3DGetDescriptor_v2(&told, level), 0);
	IS(told.Width == 1 && told.Depth == 100, 1);
	IS(cuCtxDestroy_v2(ctx), 0);
	begin();
	IS(cuMipmappedArrayDestroy(layered), 400);
	IS(cuArray3DGetDescriptor_v2(&told, level), 400);
	IS(in_use(), 0);
}

/* STANDIN_FAIL=cuArrayCreate_v2:1=2,cuArrayDestroy:1=400,cuMipmappedArrayCreate:1=2 */
void case_array_faults(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 16, 8, 0, FLOATS, 1, 0 };
	CUDA_ARRAY_DESCRIPTOR flat = { 16, 8, FLOATS, 1 };
	CUmipmappedArray m;
	CUarray a;
	char path[32];
	FILE *in = begin_log(path);

	IS(cuArrayCreate_v2(&a, &flat), 2);
	was_logged(in, "cuArrayCreate_v2", 0, 0, 2);
	a = array(16, 8);
	was_logged(in, "cuArrayCreate_v2", (uintptr_t)a, 512, 0);
	IS(cuArrayDestroy(a), 400);
	was_logged(in, "cuArrayDestroy", (uintptr_t)a, 0, 400);
	IS(cuArrayDestroy(a), 0);
	was_logged(in, "cuArrayDestroy", (uintptr_t)a, 0, 0);
	IS(cuMipmappedArrayCreate(&m, &d, 2), 2);
	was_logged(in, "cuMipmappedArrayCreate", 0, 0, 2);
	IS(cuMipmappedArrayCreate(&m, &d, 2), 0);
	was_logged(in, "cuMipmappedArrayCreate", (uintptr_t)m, 640, 0);
	IS(cuMipmappedArrayDestroy(m), 0);
	was_logged(in, "cuMipmappedArrayDestroy", (uintptr_t)m, 0, 0);
	unlink(path);
}

static void *array_storm(void *ctx)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 256, 256, 0, FLOATS, 1, 0 }, told;
	CUmipmappedArray m;
	CUarray a, level;

	IS(cuCtxSetCurrent(ctx), 0);
	for (int i = 0; i < STORM_ROUNDS; i++) {
		a = array(1024, 1024);
		IS(cuMipmappedArrayCreate(&m, &d, 4), 0);
		IS(cuMipmappedArrayGetLevel(&level, m, 1), 0);
		IS(cuArray3DGetDescriptor_v2(&told, level), 0);
		IS(told.Width, 128);
		IS(cuArrayDestroy(a), 0);
		IS(cuMipmappedArrayDestroy(m), 0);
	}
	return NULL;
}

void case_array_storm(void)
{
	storm(array_storm, begin());
	IS(in_use(), 0);
}

static _Atomic int stop_arrays;

static void *arrays_until_stopped(void *ctx)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { 256, 256, 0, FLOATS, 1, 0 };
	CUDA_ARRAY_DESCRIPTOR flat = { 16, 8, FLOATS, 1 };
	CUmipmappedArray m;
	CUdeviceptr linear;
	CUarray a;

	IS(cuCtxSetCurrent(ctx), 0);
	while (!stop_arrays) {
		if (!cuArrayCreate_v2(&a, &flat))
			cuArrayDestroy(a);
		cuArrayCreate_v2(&a, &flat);
		cuMipmappedArrayCreate(&m, &d, 4);
		cuMemAlloc_v2(&linear, 100);
	}
	return NULL;
}

/* Each array is destroyed by the reset or refused, none is left over or freed twice. */
void case_array_reset(void)
{
	CUcontext ctx = begin(), primary;
	pthread_t t[2];

	IS(cuDevicePrimaryCtxRetain(&primary, 0), 0);
	for (int i = 0; i < 2; i++)
		IS(pthread_create(&t[i], NULL, arrays_until_stopped, primary), 0);
	for (int i = 0; i < 50; i++) {
		usleep(1000);
		IS(cuDevicePrimaryCtxReset_v2(0), 0);
		IS(in_use(), 0);
		IS(cuDevicePrimaryCtxRetain(&primary, 0), 0);
	}
	IS(cuDevicePrimaryCtxReset_v2(0), 0);
	stop_arrays = 1;
	for (int i = 0; i < 2; i++)
		IS(pthread_join(t[i], NULL), 0);
	IS(cuCtxDestroy_v2(ctx), 0);
}

/* Three handles of another process, which has ended: of one block twice, then of another that
 * took its place. */
static void foreign_handles(CUipcMemHandle handles[3])
{
	CUdeviceptr d, e;
	int pipes[2], status;

	IS(pipe(pipes), 0);
	if (!fork()) {
		begin();
		d = block(1000);
		IS(cuIpcGetMemHandle(&handles[0], d), 0);
		IS(cuIpcGetMemHandle(&handles[1], d + 999), 0);
		IS(cuMemFree_v2(d), 0);
		e = block(1000);
		IS(e, d);
		IS(cuIpcGetMemHandle(&handles[2], e), 0);
		IS(write(pipes[1], handles, 3 * sizeof(*handles)), 3 * sizeof(*handles));
		_exit(0);
	}
	IS(read(pipes[0], handles, 3 * sizeof(*handles)), 3 * sizeof(*handles));
	IS(wait(&status) > 0 && status == 0, 1);
}

static void ipc_refuses(CUipcMemHandle foreign)
{
	CUipcMemHandle h, zero = { { 0 } };
	CUdeviceptr d, async;

	IS(cuMemAllocAsync(&async, 100, NULL), 0);
	IS(cuIpcGetMemHandle(&h, async), 1);
	IS(cuIpcGetMemHandle(&h, 0x1234), 1);
	d = block(100);
	IS(cuIpcGetMemHandle(NULL, d), 1);
	IS(cuIpcGetMemHandle(&h, d), 0);
	IS(cuIpcOpenMemHandle_v2(&d, h, 1), 201); /* one's own */
	IS(cuIpcOpenMemHandle_v2(&d, zero, 1), 1);
	IS(cuIpcOpenMemHandle_v2(&d, foreign, 0), 1);
	IS(cuIpcOpenMemHandle_v2(NULL, foreign, 1), 1);
	IS(cuIpcCloseMemHandle(d), 1);
	IS(cuIpcCloseMemHandle(0), 1);
}

void case_ipc(void)
{
	CUipcMemHandle handles[3], mine;
	CUdeviceptr a, b, c, base;
	CUcontext ctx, other;
	size_t size, used;

	foreign_handles(handles);
	IS(memcmp(&handles[0], &handles[1], sizeof(mine)), 0);
	IS(cuIpcOpenMemHandle_v2(&a, handles[0], 1), 3);
	ctx = begin();
	ipc_refuses(handles[0]);
	used = in_use();
	IS(cuIpcOpenMemHandle_v2(&a, handles[0], 1), 0);
	b = 77;
	IS(cuIpcOpenMemHandle(&b, handles[1], 1), 208); /* the same again */
	IS(b, 77);
	IS(cuIpcOpenMemHandle(&c, handles[2], 1), 0);
	IS(c != a, 1);
	IS(in_use(), used); /* it is the other process's memory */
	IS(cuMemGetAddressRange_v2(&base, &size, a + 5), 0);
	IS(base, a);
	IS(size, 1000);
	IS(cuMemFree_v2(a), 1);
	IS(cuIpcGetMemHandle(&mine, a), 1);
	IS(cuIpcCloseMemHandle(a + 5), 1);
	IS(cuIpcCloseMemHandle(a), 0);
	IS(cuIpcCloseMemHandle(a), 1);
	IS(cuMemGetAddressRange_v2(&base, &size, a), 500);
	IS(cuIpcCloseMemHandle(c), 0);
	IS(cuCtxCreate_v2(&other, 0, 0), 0);
	IS(cuIpcOpenMemHandle_v2(&a, handles[0], 1), 0);
	IS(cuCtxDestroy_v2(other), 0);
	IS(cuIpcCloseMemHandle(a), 1);
	IS(cuCtxDestroy_v2(ctx), 0);
	IS(cuIpcCloseMemHandle(a), 201);
}

/* STANDIN_FAIL=cuIpcGetMemHandle:1=304,cuIpcOpenMemHandle_v2:1=205,cuIpcCloseMemHandle:1=205 */
void case_ipc_faults(void)
{
	CUipcMemHandle handles[3];
	CUdeviceptr d, a;
	char path[32];
	FILE *in;

	unsetenv("STANDIN_FAIL"); /* for the other process */
	foreign_handles(handles);
	setenv("STANDIN_FAIL",
	       "cuIpcGetMemHandle:1=304,cuIpcOpenMemHandle_v2:1=205,cuIpcCloseMemHandle:1=205", 1);
	in = begin_log(path);
	d = block(100);
	was_logged(in, "cuMemAlloc_v2", d, 100, 0);
	IS(cuIpcGetMemHandle(&handles[1], d), 304);
	was_logged(in, "cuIpcGetMemHandle", d, 0, 304);
	IS(cuIpcGetMemHandle(&handles[1], d), 0);
	was_logged(in, "cuIpcGetMemHandle", d, 100, 0);
	IS(cuIpcOpenMemHandle_v2(&a, handles[0], 1), 205);
	was_logged(in, "cuIpcOpenMemHandle_v2", 0, 0, 205);
	IS(cuIpcOpenMemHandle_v2(&a, handles[0], 1), 0);
	was_logged(in, "cuIpcOpenMemHandle_v2", a, 1000, 0);
	IS(cuIpcCloseMemHandle(a), 205);
	IS(cuIpcCloseMemHandle(a), 0);
	was_logged(in, "cuIpcCloseMemHandle", a, 0, 205);
	was_logged(in, "cuIpcCloseMemHandle", a, 0, 0);
	unlink(path);
}

static CUexternalMemory import(uint64_t bytes)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = 1, .handle.fd = -1, .size = bytes };
	CUexternalMemory e = NULL;

	IS(cuImportExternalMemory(&e, &desc), 0);
	IS(e != NULL, 1);
	return e;
}

static void import_refuses(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = 2, .size = 100 };
	CUexternalMemory e;

	IS(cuImportExternalMemory(&e, NULL), 1);
	IS(cuImportExternalMemory(&e, &desc), 801);
	desc.type = 1;
	IS(cuImportExternalMemory(NULL, &desc), 1);
	desc.flags = 2;
	IS(cuImportExternalMemory(&e, &desc), 1);
	desc.flags = desc.size = 0;
	IS(cuImportExternalMemory(&e, &desc), 1);
}

/* STANDIN_MEMORY=64 MiB: imported memory does not count against it. */
void case_external(void)
{
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC at = { .offset = 4096, .size = 100 << 20 };
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC levels = {
		.arrayDesc = { 16, 16, 0, FLOATS, 1, 0 }, .numLevels = 2
	};
	CUcontext ctx = begin(), other;
	CUexternalMemory e = import(200 << 20), f;
	CUdeviceptr d, again, base;
	CUmipmappedArray m;
	CUarray level;
	size_t size;

	import_refuses();
	IS(cuExternalMemoryGetMappedBuffer(&d, e, &at), 0);
	IS(cuExternalMemoryGetMappedBuffer(&again, e, &at), 0);
	IS(again != d, 1);
	IS(cuExternalMemoryGetMappedMipmappedArray(&m, e, &levels), 0);
	IS(in_use(), 0);
	IS(cuMemGetAddressRange_v2(&base, &size, d + 1), 0);
	IS(size, 100 << 20);
	IS(cuMemFreeAsync(d, NULL), 1);
	IS(cuDestroyExternalMemory(e), 0);
	IS(cuDestroyExternalMemory(e), 400);
	IS(cuDestroyExternalMemory(NULL), 1);
	IS(cuExternalMemoryGetMappedBuffer(&base, e, &at), 400);
	IS(cuMemFree_v2(d), 0); /* outlived it */
	IS(cuMemFree_v2(d), 1);
	IS(cuMemFree_v2(again), 0);
	IS(cuMipmappedArrayGetLevel(&level, m, 1), 0);
	IS(cuMipmappedArrayDestroy(m), 0);
	f = import(at.size);
	IS(cuExternalMemoryGetMappedBuffer(&d, f, &at), 1); /* ends behind it */
	at.offset = 0;
	IS(cuExternalMemoryGetMappedBuffer(&d, f, NULL), 1);
	IS(cuExternalMemoryGetMappedBuffer(NULL, f, &at), 1);
	IS(cuExternalMemoryGetMappedBuffer(&d, f, &at), 0);
	IS(cuCtxCreate_v2(&other, 0, 0), 0);
	IS(cuCtxDestroy_v2(ctx), 0);
	IS(cuMemFree_v2(d), 1); /* both went with the context */
	IS(cuDestroyExternalMemory(f), 400);
}

/* STANDIN_FAIL: the first import, mapping and end of an import */
void case_external_faults(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = 1, .size = 4096 };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC at = { .size = 4096 };
	CUexternalMemory e;
	CUdeviceptr d;
	char path[32];
	FILE *in = begin_log(path);

	IS(cuImportExternalMemory(&e, &desc), 304);
	was_logged(in, "cuImportExternalMemory", 0, 0, 304);
	e = import(4096);
	was_logged(in, "cuImportExternalMemory", (uintptr_t)e, 4096, 0);
	IS(cuExternalMemoryGetMappedBuffer(&d, e, &at), 1);
	was_logged(in, "cuExternalMemoryGetMappedBuffer", 0, 0, 1);
	IS(cuExternalMemoryGetMappedBuffer(&d, e, &at), 0);
	was_logged(in, "cuExternalMemoryGetMappedBuffer", d, 4096, 0);
	IS(cuDestroyExternalMemory(e), 400);
	IS(cuDestroyExternalMemory(e), 0);
	was_logged(in, "cuDestroyExternalMemory", (uintptr_t)e, 0, 400);
	was_logged(in, "cuDestroyExternalMemory", (uintptr_t)e, 0, 0);
	unlink(path);
}

static CUipcMemHandle shared[3];

static void *share_storm(void *ctx)
{
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC at = { .size = 4096 };
	CUexternalMemory e;
	CUdeviceptr a, b;
	CUresult opened;

	IS(cuCtxSetCurrent(ctx), 0);
	for (int i = 0; i < STORM_ROUNDS; i++) {
		e = import(4096);
		opened = cuIpcOpenMemHandle_v2(&a, shared[i % 3], 1); /* or another has it */
		IS(opened == 0 || opened == 208, 1);
		IS(cuExternalMemoryGetMappedBuffer(&b, e, &at), 0);
		IS(cuDestroyExternalMemory(e), 0);
		IS(cuMemFree_v2(b), 0);
		if (!opened)
			IS(cuIpcCloseMemHandle(a), 0);
	}
	return NULL;
}

void case_share_storm(void)
{
	foreign_handles(shared);
	storm(share_storm, begin());
	IS(in_use(), 0);
}
