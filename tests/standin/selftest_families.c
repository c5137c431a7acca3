/* SPDX-License-Identifier: MIT
 *
 * The self-test's cases for pools, arrays, virtual memory, IPC and external memory. What they
 * state is what cuda.h documents, or a choice that README.md names: nothing here was recorded.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr ptr);
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
	IS(cuMemPoolSetAccess(p, &access, 1), 1);
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
	IS(pool(0, 0) == p, 1);
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
	counts(p, step, step, 512, 512);
	IS(cuMemAllocFromPoolAsync(&d[1], 33 << 20, p, NULL), 0);
	counts(p, 2 * step, 2 * step, (33 << 20) + 512, (33 << 20) + 512);
	IS(cuMemFreeAsync(d[1], NULL), 0);
	counts(p, 2 * step, 2 * step, 512, (33 << 20) + 512);
	n = 2 * step;
	IS(cuMemPoolSetAttribute(p, 4, &n), 0);
	IS(number(p, 4), n);
	IS(cuStreamSynchronize(NULL), 0); /* the threshold holds it */
	IS(number(p, 5), 2 * step);
	IS(cuMemPoolTrimTo(p, 0), 0); /* which this ignores */
	counts(p, step, 2 * step, 512, (33 << 20) + 512);
	n = 0;
	IS(cuMemPoolSetAttribute(p, 6, &n), 0);
	IS(cuMemPoolSetAttribute(p, 8, &n), 0);
	IS(cuMemPoolSetAttribute(p, 4, &n), 0);
	counts(p, step, step, 512, 512);
	IS(cuMemFreeAsync(d[0], NULL), 0);
	IS(cuStreamSynchronize(NULL), 0);
	counts(p, 0, step, 0, 512);
	n = 1;
	IS(cuMemPoolSetAttribute(p, 5, &n), 1);
	IS(cuMemPoolSetAttribute(p, 6, &n), 1);
	IS(cuMemPoolSetAttribute(p, 4, NULL), 1);
	IS(cuMemPoolGetAttribute(p, 9, &n), 1);
	IS(cuMemPoolGetAttribute(p, 3, &on), 0);
	IS(on, 1);
	full = pool(0, 1024);
	IS(cuMemAllocFromPoolAsync(&d[0], 1024, full, NULL), 0);
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
	IS(number(p, 8), 512);
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
	IS(cuMemAddressReserve(&f, 4096, (size_t)1 << 30, e, 0), 0); /* taken: elsewhere */
	IS(f % (1 << 30), 0);
	IS(reserve(5 * grain), d + 3 * grain); /* fits the gap */
	IS(cuMemAddressFree(d, grain), 1);
	IS(cuMemAddressFree(d + grain, 2 * grain), 1);
	IS(cuMemAddressFree(d + 3 * grain, 5 * grain), 0);
	IS(cuMemAddressFree(f, 4096), 0);
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
	CUmemGenericAllocationHandle h;
	CUdeviceptr d;

	ctx = begin();
	reserving();
	h = physical(2 * grain);
	d = reserve(8 * grain);
	IS(cuMemMap(d + 4096, grain, 0, h, 0), 1);
	IS(cuMemMap(d, grain, grain, h, 0), 1);
	IS(cuMemMap(d, 3 * grain, 0, h, 0), 1);
	IS(cuMemMap(d + 7 * grain, 2 * grain, 0, h, 0), 1);
	IS(cuMemMap(d - grain, grain, 0, h, 0), 1);
	IS(cuMemMap(d, grain, 0, h, 1), 1);
	for (int i = 0; i < 3; i++) /* 0-2, 2-4, 4-6 */
		IS(cuMemMap(d + 2 * i * grain, 2 * grain, 0, h, 0), 0);
	IS(cuMemMap(d + 7 * grain, grain, 0, h, 0), 0);
	IS(cuMemMap(d + 5 * grain, 2 * grain, 0, h, 0), 1);
	IS(cuMemAddressFree(d, 8 * grain), 1);
	IS(cuMemUnmap(d, grain), 1);
	IS(cuMemUnmap(d + grain, 3 * grain), 1);
	IS(cuMemUnmap(d, 8 * grain), 1); /* with a hole */
	IS(cuMemUnmap(d, 0), 1);
	IS(cuMemSetAccess(d, 6 * grain, &access, 1), 1);
	access.flags = 1;
	IS(cuMemSetAccess(d, 6 * grain, &access, 1), 0);
	IS(cuMemSetAccess(d, 8 * grain, &access, 1), 1);
	IS(cuMemSetAccess(d, 6 * grain, NULL, 1), 1);
	IS(cuDevicePrimaryCtxRetain(&primary, 0), 0);
	IS(cuDevicePrimaryCtxReset_v2(0), 0);
	IS(cuCtxDestroy_v2(ctx), 0); /* nothing of it is a context's */
	IS(cuMemUnmap(d, 6 * grain), 0);
	IS(cuMemUnmap(d, 2 * grain), 1);
	IS(cuMemUnmap(d + 7 * grain, grain), 0);
	IS(cuMemRelease(h), 0);
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
