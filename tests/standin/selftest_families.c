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
