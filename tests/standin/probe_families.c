/* SPDX-License-Identifier: MIT
 *
 * The questions about pools, arrays, virtual memory, IPC and external memory, to be put to a
 * real driver and to the stand-in, as probe.c does for the rest. Prints and judges nothing.
 *   cc -w -o probe_families probe_families.c -ldl
 *   for i in pools arrays virtual ipc ends 1 2 3 4 5 6 7; do ./probe_families $i; done
 * The numbered questions may crash a real driver: each is the last one of its run.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "standin/driver/families.h"

typedef unsigned long long u64;
typedef int (*any)();

static void *lib, *context;

static any f(const char *name)
{
	any found = (any)dlsym(lib, name);

	if (!found)
		printf("(no %s)\n", name);
	return found ? found : (any)abort;
}

#define P(call) printf("%-72s %d\n", #call, (call))
#define C(name) f(#name)
#define MIB ((size_t)1 << 20)

static CUmemPoolProps pool_props = { .allocType = 1, .location = { 1, 0 } };
static CUmemAllocationProp prop = { .type = 1, .location = { 1, 0 } };
static CUDA_ARRAY_DESCRIPTOR flat = { 64, 64, 0x20, 1 };
static CUDA_ARRAY3D_DESCRIPTOR deep = { 16, 8, 0, 0x20, 1, 0 };

static void counts(void *pool)
{
	u64 n[4] = { 0 };

	for (int i = 0; i < 4; i++)
		C(cuMemPoolGetAttribute)(pool, 5 + i, &n[i]);
	printf("  reserved %llu, high %llu, used %llu, high %llu\n", n[0], n[1], n[2], n[3]);
}

static void used(void)
{
	size_t unused = 0, total = 0;
	static size_t last;

	C(cuMemGetInfo_v2)(&unused, &total);
	if (last)
		printf("  %+lld KiB used\n", ((long long)last - (long long)unused) / 1024);
	last = unused;
}

static void pools(void)
{
	void *p, *q, *now, *standard;
	CUmemAccessDesc none = { { 1, 0 }, 0 }, both = { { 1, 0 }, 3 }, absent = { { 1, 99 }, 3 };
	u64 d, e, n = 0;

	P(C(cuMemPoolCreate)(&p, NULL));
	P(C(cuMemPoolCreate)(NULL, &pool_props));
	pool_props.location.id = 99;
	P(C(cuMemPoolCreate)(&p, &pool_props));
	pool_props.location.id = 0;
	pool_props.allocType = 0;
	P(C(cuMemPoolCreate)(&p, &pool_props));
	pool_props.allocType = 1;
	P(C(cuDeviceGetDefaultMemPool)(&standard, 0));
	P(C(cuDeviceGetDefaultMemPool)(&now, 99));
	P(C(cuDeviceGetMemPool)(NULL, 0));
	P(C(cuMemPoolDestroy)(standard));
	P(C(cuMemPoolDestroy)(NULL));
	P(C(cuMemPoolTrimTo)(NULL, (size_t)0));
	P(C(cuDeviceSetMemPool)(0, NULL));
	P(C(cuMemPoolCreate)(&p, &pool_props));
	counts(p);
	P(C(cuMemAllocFromPoolAsync)(&d, (size_t)0, p, NULL));
	P(C(cuMemAllocFromPoolAsync)(&d, (size_t)100, NULL, NULL));
	P(C(cuMemAllocFromPoolAsync)(NULL, (size_t)100, p, NULL));
	P(C(cuMemAllocFromPoolAsync)(&d, (size_t)100, p, NULL));
	counts(p);
	P(C(cuMemAllocFromPoolAsync)(&e, 33 * MIB, p, NULL));
	counts(p);
	P(C(cuMemFreeAsync)(e, NULL));
	counts(p);
	P(C(cuStreamSynchronize)(NULL));
	counts(p);
	n = 1;
	P(C(cuMemPoolSetAttribute)(p, 5, &n));
	P(C(cuMemPoolSetAttribute)(p, 6, &n));
	n = 0;
	P(C(cuMemPoolSetAttribute)(p, 8, &n));
	counts(p);
	P(C(cuMemPoolGetAttribute)(p, 9, &n));
	P(C(cuMemPoolSetAccess)(p, &both, (size_t)1));
	P(C(cuMemPoolSetAccess)(p, &none, (size_t)1));
	P(C(cuMemPoolSetAccess)(p, &absent, (size_t)1));
	P(C(cuMemPoolSetAccess)(p, NULL, (size_t)0));
	P(C(cuDeviceSetMemPool)(0, p));
	P(C(cuMemPoolDestroy)(p));
	P(C(cuDeviceGetMemPool)(&now, 0));
	printf("  current is the default: %d\n", now == standard);
	P(C(cuMemFree_v2)(d));
	P(C(cuMemPoolCreate)(&q, &pool_props));
	printf("  the handle is handed out again: %d\n", p == q);
	pool_props.maxSize = 1024;
	P(C(cuMemPoolCreate)(&q, &pool_props));
	P(C(cuMemAllocFromPoolAsync)(&d, MIB, q, NULL));
	P(C(cuMemAllocFromPoolAsync)(&d, 64 * MIB, q, NULL));
}

static void arrays(void)
{
	void *a = (void *)7, *level, *again, *stream, *graph;
	CUDA_ARRAY3D_DESCRIPTOR told;

	used();
	P(C(cuArrayCreate_v2)(NULL, &flat));
	P(C(cuArrayCreate_v2)(&a, NULL));
	printf("  handle untouched: %d\n", a == (void *)7);
	P(C(cuArrayCreate)(&a, &flat));
	flat.NumChannels = 3;
	P(C(cuArrayCreate_v2)(&a, &flat));
	flat.NumChannels = 1;
	flat.Format = 0x77;
	P(C(cuArrayCreate_v2)(&a, &flat));
	flat.Format = 0x20;
	flat.Width = 1 << 30;
	P(C(cuArrayCreate_v2)(&a, &flat));
	flat.Width = 16384;
	flat.Height = 16384;
	P(C(cuArrayCreate_v2)(&a, &flat));
	used();
	P(C(cuArray3DGetDescriptor_v2)(&told, a));
	P(C(cuArray3DGetDescriptor_v2)(NULL, a));
	P(C(cuArray3DGetDescriptor_v2)(&told, NULL));
	P(C(cuArrayDestroy)(a));
	P(C(cuArrayDestroy)(NULL));
	P(C(cuMipmappedArrayCreate)(&a, &deep, 0));
	P(C(cuMipmappedArrayDestroy)(a));
	P(C(cuMipmappedArrayCreate)(&a, &deep, 99));
	for (int i = 0; i < 7; i++)
		P(C(cuMipmappedArrayGetLevel)(&level, a, i));
	C(cuMipmappedArrayGetLevel)(&level, a, 0);
	C(cuMipmappedArrayGetLevel)(&again, a, 0);
	printf("  the same handle for a level: %d\n", level == again);
	P(C(cuMipmappedArrayDestroy)(NULL));
	P(C(cuCtxSetCurrent)(NULL));
	P(C(cuMipmappedArrayDestroy)(a));
	P(C(cuCtxSetCurrent)(context));
	P(C(cuStreamCreate)(&stream, 1));
	P(C(cuStreamBeginCapture_v2)(stream, 0));
	P(C(cuArrayCreate_v2)(&a, &flat));
	P(C(cuStreamEndCapture)(stream, &graph));
}

static void mapping(u64 d, u64 h)
{
	CUmemAccessDesc access = { { 1, 0 }, 3 };
	u64 again, base;
	size_t size = 0;

	P(C(cuMemMap)(d + 4096, 2 * MIB, (size_t)0, h, 0ull));
	P(C(cuMemMap)(d, 2 * MIB, 2 * MIB, h, 0ull));
	P(C(cuMemUnmap)(d, 2 * MIB));
	P(C(cuMemMap)(d, 2 * MIB, (size_t)0, h, 0ull));
	P(C(cuMemUnmap)(d, 2 * MIB));
	P(C(cuMemMap)(d, 6 * MIB, (size_t)0, h, 0ull));
	P(C(cuMemMap)(d, 4 * MIB, (size_t)0, h, 0ull));
	P(C(cuMemMap)(d + 2 * MIB, 4 * MIB, (size_t)0, h, 0ull));
	P(C(cuMemMap)(d + 4 * MIB, 4 * MIB, (size_t)0, h, 0ull));
	P(C(cuMemMap)(d + 10 * MIB, 4 * MIB, (size_t)0, h, 0ull));
	P(C(cuMemSetAccess)(d, 2 * MIB, &access, (size_t)1));
	P(C(cuMemSetAccess)(d, 8 * MIB, &access, (size_t)1));
	P(C(cuMemSetAccess)(d, 16 * MIB, &access, (size_t)1));
	P(C(cuMemGetAddressRange_v2)(&base, &size, d + 4 * MIB + 5));
	printf("  base at %llu, %zu bytes\n", base - d, size);
	P(C(cuMemFree_v2)(d));
	P(C(cuMemFreeAsync)(d, NULL));
	P(C(cuMemAddressFree)(d, 16 * MIB));
	P(C(cuMemUnmap)(d, 2 * MIB));
	P(C(cuMemUnmap)(d, 16 * MIB));
	P(C(cuMemRelease)(h));
	P(C(cuMemRetainAllocationHandle)(&again, (void *)(d + 5)));
	printf("  the same handle: %d\n", again == h);
	P(C(cuMemRelease)(again));
	P(C(cuMemUnmap)(d, 8 * MIB));
	P(C(cuMemUnmap)(d, 8 * MIB));
	P(C(cuMemRetainAllocationHandle)(&again, (void *)d));
	P(C(cuMemUnmap)(d + 10 * MIB, 4 * MIB));
	used();
	P(C(cuMemAddressFree)(d, 8 * MIB));
	P(C(cuMemAddressFree)(d, 16 * MIB));
	P(C(cuMemAddressFree)(d, 16 * MIB));
}

static void virtual(void)
{
	void *stream, *graph;
	u64 h, d;
	size_t n = 0;

	used();
	P(C(cuMemGetAllocationGranularity)(&n, &prop, 0));
	printf("  %zu\n", n);
	P(C(cuMemCreate)(&h, (size_t)4096, &prop, 0ull));
	P(C(cuMemCreate)(&h, (size_t)0, &prop, 0ull));
	P(C(cuMemCreate)(&h, 2 * MIB, &prop, 1ull));
	P(C(cuMemCreate)(&h, MIB << 20, &prop, 0ull));
	prop.location.id = 99;
	P(C(cuMemCreate)(&h, 2 * MIB, &prop, 0ull));
	prop.location.id = 0;
	prop.type = 0;
	P(C(cuMemCreate)(&h, 2 * MIB, &prop, 0ull));
	prop.type = 1;
	P(C(cuMemAddressReserve)(&d, (size_t)0, (size_t)0, 0ull, 0ull));
	P(C(cuMemAddressReserve)(&d, (size_t)100, (size_t)0, 0ull, 0ull));
	P(C(cuMemAddressReserve)(&d, (size_t)4096, (size_t)0, 0ull, 0ull));
	P(C(cuMemAddressReserve)(&d, 2 * MIB, (size_t)3, 0ull, 0ull));
	P(C(cuMemAddressReserve)(&d, 2 * MIB, (size_t)0, 0ull, 1ull));
	P(C(cuCtxSetCurrent)(NULL));
	P(C(cuMemCreate)(&h, 4 * MIB, &prop, 0ull));
	P(C(cuMemAddressReserve)(&d, 16 * MIB, (size_t)0, 0ull, 0ull));
	P(C(cuCtxSetCurrent)(context));
	used();
	mapping(d, h);
	P(C(cuStreamCreate)(&stream, 1));
	P(C(cuStreamBeginCapture_v2)(stream, 0));
	P(C(cuMemCreate)(&h, 4 * MIB, &prop, 0ull));
	P(C(cuMemAddressReserve)(&d, 4 * MIB, (size_t)0, 0ull, 0ull));
	P(C(cuMemMap)(d, 4 * MIB, (size_t)0, h, 0ull));
	P(C(cuMemUnmap)(d, 4 * MIB));
	P(C(cuMemRelease)(h));
	P(C(cuStreamEndCapture)(stream, &graph));
}

/* Another process exports, and waits until this one has done. */
static void exporter(int out, int in)
{
	CUipcMemHandle handle;
	u64 d = 0;

	C(cuInit)(0);
	C(cuCtxCreate_v2)(&context, 0, 0);
	C(cuMemAlloc_v2)(&d, 4 * MIB);
	C(cuIpcGetMemHandle)(&handle, d);
	write(out, &handle, sizeof(handle));
	read(in, &handle, 1);
	_exit(0);
}

static void ipc(void)
{
	CUipcMemHandle handle = { { 0 } }, mine;
	u64 d, e, managed, base;
	int there[2], back[2];
	size_t size = 0;

	pipe(there);
	pipe(back);
	if (!fork())
		exporter(there[1], back[0]);
	read(there[0], &handle, sizeof(handle));
	C(cuInit)(0);
	P(C(cuIpcOpenMemHandle_v2)(&d, handle, 1));
	C(cuCtxCreate_v2)(&context, 0, 0);
	P(C(cuMemAlloc_v2)(&d, 4 * MIB));
	P(C(cuIpcGetMemHandle)(&mine, d + 512));
	P(C(cuIpcGetMemHandle)(NULL, d));
	P(C(cuIpcGetMemHandle)(&mine, d));
	P(C(cuIpcOpenMemHandle_v2)(&e, mine, 1));
	P(C(cuMemAllocAsync)(&e, MIB, NULL));
	P(C(cuIpcGetMemHandle)(&mine, e));
	P(C(cuMemAllocManaged)(&managed, MIB, 1));
	P(C(cuIpcGetMemHandle)(&mine, managed));
	P(C(cuIpcGetMemHandle)(&mine, 0x1234ull));
	P(C(cuIpcCloseMemHandle)(d));
	P(C(cuIpcCloseMemHandle)(0ull));
	memset(&mine, 0, sizeof(mine));
	P(C(cuIpcOpenMemHandle_v2)(&e, mine, 1));
	P(C(cuIpcOpenMemHandle_v2)(&e, handle, 0));
	used();
	P(C(cuIpcOpenMemHandle_v2)(&d, handle, 1));
	used();
	P(C(cuIpcOpenMemHandle)(&e, handle, 1));
	printf("  the same address: %d\n", d == e);
	P(C(cuMemGetAddressRange_v2)(&base, &size, d + 5));
	printf("  base at %lld, %zu bytes\n", base - d, size);
	P(C(cuMemFree_v2)(d));
	P(C(cuIpcGetMemHandle)(&mine, d));
	P(C(cuIpcCloseMemHandle)(d + 512));
	P(C(cuIpcCloseMemHandle)(d));
	P(C(cuIpcCloseMemHandle)(d));
	P(C(cuIpcCloseMemHandle)(d));
	write(back[1], "", 1);
	wait(NULL);
}

/* What ends with a context. */
static void ends(void)
{
	CUmemAccessDesc access = { { 1, 0 }, 3 };
	void *pool, *now;
	u64 h, d, e, n = 0;

	P(C(cuDevicePrimaryCtxRetain)(&context, 0));
	P(C(cuCtxSetCurrent)(context));
	P(C(cuMemPoolCreate)(&pool, &pool_props));
	P(C(cuDeviceSetMemPool)(0, pool));
	P(C(cuMemAllocAsync)(&e, MIB, NULL));
	P(C(cuMemCreate)(&h, 2 * MIB, &prop, 0ull));
	P(C(cuMemAddressReserve)(&d, 2 * MIB, (size_t)0, 0ull, 0ull));
	P(C(cuMemMap)(d, 2 * MIB, (size_t)0, h, 0ull));
	P(C(cuMemSetAccess)(d, 2 * MIB, &access, (size_t)1));
	P(C(cuDevicePrimaryCtxReset_v2)(0));
	P(C(cuDevicePrimaryCtxRetain)(&context, 0));
	P(C(cuCtxSetCurrent)(context));
	P(C(cuDeviceGetMemPool)(&now, 0));
	printf("  the same pool: %d\n", now == pool);
	P(C(cuMemPoolGetAttribute)(pool, 7, &n));
	printf("  used %llu\n", n);
	P(C(cuMemFreeAsync)(e, NULL));
	P(C(cuMemPoolDestroy)(pool));
	P(C(cuMemUnmap)(d, 2 * MIB));
	P(C(cuMemRelease)(h));
	P(C(cuMemAddressFree)(d, 2 * MIB));
}

static void risky(int question)
{
	void *a, *b, *level, *other, *pool;
	u64 h;

	C(cuArrayCreate_v2)(&a, &flat);
	C(cuMipmappedArrayCreate)(&b, &deep, 2);
	C(cuMemPoolCreate)(&pool, &pool_props);
	C(cuMemCreate)(&h, 2 * MIB, &prop, 0ull);
	switch (question) {
	case 1:
		C(cuArrayDestroy)(a);
		P(C(cuArrayDestroy)(a));
		break;
	case 2:
		C(cuMipmappedArrayGetLevel)(&level, b, 0);
		P(C(cuArrayDestroy)(level));
		P(C(cuMipmappedArrayDestroy)(b));
		break;
	case 3:
		C(cuMipmappedArrayDestroy)(b);
		P(C(cuMipmappedArrayDestroy)(b));
		break;
	case 4:
		C(cuMemRelease)(h);
		P(C(cuMemRelease)(h));
		break;
	case 5:
		C(cuMemPoolDestroy)(pool);
		P(C(cuMemPoolDestroy)(pool));
		break;
	case 6:
		C(cuCtxDestroy_v2)(context);
		C(cuCtxCreate_v2)(&other, 0, 0);
		P(C(cuArrayDestroy)(a));
		break;
	case 7:
		P(C(cuDestroyExternalMemory)(NULL));
		break;
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "pools";

	setvbuf(stdout, NULL, _IOLBF, 0);
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib)
		return puts(dlerror()), 1;
	printf("-- %s\n", what);
	if (!strcmp(what, "ipc"))
		return ipc(), 0;
	C(cuInit)(0);
	if (!strcmp(what, "ends"))
		return ends(), 0;
	C(cuCtxCreate_v2)(&context, 0, 0);
	if (!strcmp(what, "pools"))
		pools();
	else if (!strcmp(what, "arrays"))
		arrays();
	else if (!strcmp(what, "virtual"))
		virtual();
	else
		risky(atoi(what));
	return 0;
}
