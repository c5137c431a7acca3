/* SPDX-License-Identifier: MIT
 *
 * The questions that the stand-in has to answer as the real driver does, put to whatever
 * libcuda.so.1 the loader finds: run it on a machine with a GPU and on the stand-in, and
 * compare. It prints and judges nothing; selftest.c compares its output with the recorded one.
 *   cc -o probe probe.c -ldl && ./probe resolver cuda13.names; ./probe calls
 *   ./probe fork; ./probe fork again
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long long u64;
typedef int (*any)();

static void *lib;

static any f(const char *name)
{
	any found = (any)dlsym(lib, name);

	if (!found)
		printf("(no %s)\n", name);
	return found ? found : (any)abort;
}

#define P(call) printf("%-56s %d\n", #call, (call))
#define C(name) f(#name)

static char names[1024][64];
static void *addresses[1024];
static int total;

static const char *name_of(void *p)
{
	for (int i = 0; i < total; i++)
		if (addresses[i] == p)
			return names[i];
	return p ? "(unknown pointer)" : "NULL";
}

static void ask(const char *name, int flags)
{
	static const int versions[] = { 0,     2000,  2010,  2020,  2030,  3000,  3010,	 3020,
					4000,  4010,  4020,  5000,  5050,  6000,  6050,	 7000,
					7050,  8000,  9000,  9010,  9020,  10000, 10010, 10020,
					11000, 11010, 11020, 11030, 11040, 11050, 11060, 11070,
					11080, 12000, 12010, 12020, 12030, 12040, 12050, 12060,
					12070, 12080, 12090, 13000, 13010, 14000, -1 };
	char last[128] = "", now[128];

	for (unsigned int i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		void *p = (void *)1;
		int status = -7;
		int r = C(cuGetProcAddress_v2)(name, &p, versions[i], (u64)flags, &status);

		snprintf(now, sizeof(now), "%d %d %s", r, status,
			 p == (void *)1 ? "untouched" : name_of(p));
		if (strcmp(now, last))
			printf("%s %d @%d: %s\n", name, flags, versions[i], now);
		strcpy(last, now);
	}
}

static void resolver(const char *path)
{
	FILE *in = fopen(path, "r");

	while (in && total < 1024 && fscanf(in, "%63s", names[total]) == 1) {
		addresses[total] = dlsym(lib, names[total]);
		if (!addresses[total])
			printf("absent %s\n", names[total]);
		total++;
	}
	for (int i = 0; i < total; i++) {
		ask(names[i], 0);
		ask(names[i], 2);
	}
	ask("cuMemAlloc", 1);
	ask("cuMemcpyHtoD", 1);
	ask("cuMemAlloc", 3);
	ask("cuMemAlloc", 4);
	ask("", 0);
	ask("cuNoSuchThing", 0);
	ask("malloc", 0);
	{
		void *p = (void *)1;
		int s = -7;

		P(C(cuGetProcAddress_v2)("", &p, 0, 0ull, NULL));
		printf("  pfn %p\n", p);
		p = (void *)1;
		P(C(cuGetProcAddress_v2)("cuGreenCtxCreate", &p, 11030, 0ull, NULL));
		printf("  pfn %p\n", p);
		P(C(cuGetProcAddress_v2)("cuMemAlloc", &p, 12000, 0ull, NULL));
		p = (void *)1;
		P(C(cuGetProcAddress)("", &p, 11030, 0ull));
		printf("  pfn %p\n", p);
		p = (void *)1;
		P(C(cuGetProcAddress)("cuGreenCtxCreate", &p, 11030, 0ull));
		printf("  pfn %p\n", p);
		p = (void *)1;
		P(C(cuGetProcAddress)("cuMemAlloc", &p, 11030, 0ull));
		printf("  %s\n", name_of(p));
		P(C(cuGetProcAddress_v2)("cuMemAlloc", NULL, 12000, 0ull, &s));
		printf("  status %d\n", s);
		P(C(cuGetProcAddress_v2)(NULL, &p, 12000, 0ull, &s));
		printf("  pfn %p status %d\n", p, s);
	}
}

static void before_init(void)
{
	u64 d = 77;
	int n = -7;
	void *p;
	size_t a, b;

	P(C(cuDriverGetVersion)(&n));
	P(C(cuDeviceGetCount)(&n));
	P(C(cuGetErrorName)(2, &p));
	P(C(cuCtxGetCurrent)(&p));
	P(C(cuCtxSetCurrent)(NULL));
	P(C(cuMemAlloc_v2)(&d, (size_t)100));
	P(C(cuMemAlloc_v2)(NULL, (size_t)100));
	P(C(cuMemFree_v2)(0ull));
	P(C(cuMemGetInfo_v2)(&a, &b));
	P(C(cuMemFreeHost)(NULL));
	P(C(cuDevicePrimaryCtxReset_v2)(0));
	P(C(cuInit)(1));
	P(C(cuInit)(0));
	P(C(cuInit)(0));
	P(C(cuInit)(1));
	puts("-- initialised, no context");
	P(C(cuMemAlloc_v2)(&d, (size_t)100));
	P(C(cuMemAlloc_v2)(NULL, (size_t)100));
	P(C(cuMemAlloc_v2)(&d, (size_t)0));
	P(C(cuMemFree_v2)(0ull));
	P(C(cuMemFree_v2)(0x1234ull));
	P(C(cuMemGetInfo_v2)(&a, &b));
	P(C(cuMemAllocHost_v2)(&p, (size_t)100));
	P(C(cuMemFreeHost)(NULL));
	P(C(cuMemHostRegister_v2)((void *)0x10000, (size_t)4096, 0));
	P(C(cuMemGetAddressRange_v2)(&d, &a, 0x1234ull));
	P(C(cuCtxSynchronize)());
	P(C(cuCtxGetDevice)(&n));
	P(C(cuCtxGetCurrent)(&p));
	printf("  current %p\n", p);
	P(C(cuCtxPopCurrent_v2)(&p));
	P(C(cuCtxGetCurrent)(NULL));
	P(C(cuStreamCreate)(&p, 0));
	P(C(cuMemFreeAsync)(0ull, NULL));
	P(C(cuMemAllocAsync)(&d, (size_t)100, NULL));
	P(C(cuDeviceGet)(&n, 99));
	P(C(cuDeviceGet)(&n, -1));
	P(C(cuDevicePrimaryCtxRetain)(&p, 99));
	P(C(cuDevicePrimaryCtxRelease_v2)(0));
}

static void state(const char *when)
{
	unsigned int flags = 77;
	int active = 77;
	void *p = NULL;
	int r = C(cuDevicePrimaryCtxGetState)(0, &flags, &active);

	C(cuCtxGetCurrent)(&p);
	printf("  %s: state %d flags %u active %d current %s\n", when, r, flags, active,
	       p ? "set" : "NULL");
}

static void primary(void)
{
	void *c1 = NULL, *c2 = NULL;
	u64 d = 0, e = 0;
	unsigned int v = 0;

	puts("-- primary context");
	state("start");
	P(C(cuDevicePrimaryCtxRetain)(&c1, 0));
	state("retained");
	P(C(cuCtxSetCurrent)(c1));
	P(C(cuMemAlloc_v2)(&d, (size_t)100));
	P(C(cuCtxGetApiVersion)(c1, &v));
	printf("  api version %u\n", v);
	P(C(cuCtxGetApiVersion)(NULL, &v));
	P(C(cuDevicePrimaryCtxReset_v2)(0));
	state("reset");
	P(C(cuMemFree_v2)(d));
	P(C(cuMemFree_v2)(0ull));
	P(C(cuMemAlloc_v2)(&e, (size_t)100));
	P(C(cuCtxSynchronize)());
	P(C(cuCtxSetCurrent)(c1));
	P(C(cuMemAlloc_v2)(&e, (size_t)100));
	P(C(cuDevicePrimaryCtxRetain)(&c2, 0));
	printf("  same handle: %d\n", c1 == c2);
	state("retained again");
	P(C(cuMemAlloc_v2)(&e, (size_t)100));
	P(C(cuMemFree_v2)(d));
	P(C(cuMemFree_v2)(e));
	P(C(cuDevicePrimaryCtxRelease_v2)(0));
	state("released once");
	P(C(cuMemAlloc_v2)(&e, (size_t)100));
	P(C(cuDevicePrimaryCtxRelease_v2)(0));
	state("released twice");
	P(C(cuMemAlloc_v2)(&e, (size_t)100));
	P(C(cuMemFree_v2)(e));
	P(C(cuCtxGetDevice)((int *)&v));
	P(C(cuDevicePrimaryCtxRelease_v2)(0));
	P(C(cuCtxPushCurrent_v2)(c1));
	P(C(cuCtxPopCurrent_v2)(NULL));
	P(C(cuCtxDestroy_v2)(c1));
	P(C(cuDevicePrimaryCtxReset_v2)(0));
	state("reset while inactive");
	P(C(cuDevicePrimaryCtxSetFlags_v2)(0, 4));
	P(C(cuDevicePrimaryCtxSetFlags_v2)(0, 0));
}

static void contexts(void)
{
	void *c = NULL, *p = NULL, *pinned = NULL, *q = aligned_alloc(4096, 4096);
	u64 d = 0, e = 0;
	size_t a;

	puts("-- contexts");
	P(C(cuCtxSetCurrent)(NULL));
	P(C(cuCtxCreate_v2)(&c, 0, 0));
	P(C(cuMemAlloc_v2)(&d, (size_t)100));
	P(C(cuCtxPopCurrent_v2)(&p));
	puts("   (no current context, live block)");
	P(C(cuMemGetAddressRange_v2)(&e, &a, d));
	P(C(cuMemFree_v2)(d));
	P(C(cuMemFree_v2)(0x1234ull));
	P(C(cuCtxPushCurrent_v2)(c));
	P(C(cuMemFree_v2)(d));
	P(C(cuMemAlloc_v2)(&d, (size_t)100));
	P(C(cuCtxDestroy_v2)(c));
	P(C(cuCtxGetCurrent)(&p));
	printf("  current %s\n", p ? "set" : "NULL");
	P(C(cuMemFree_v2)(d));
	/* the handle of a destroyed context is a dangling pointer there: not asked */
	P(C(cuCtxDestroy_v2)(NULL));
	P(C(cuCtxPushCurrent_v2)(NULL));
	P(C(cuCtxCreate_v2)(&c, 0, 99));
	P(C(cuCtxCreate_v2)(NULL, 0, 0));
	puts("   (what outlives a context)");
	C(cuCtxCreate_v2)(&p, 0, 0);
	C(cuCtxCreate_v2)(&c, 0, 0);
	P(C(cuMemAllocAsync)(&d, (size_t)100, NULL));
	P(C(cuMemAllocManaged)(&e, (size_t)100, 1));
	P(C(cuMemAllocHost_v2)(&pinned, (size_t)100));
	P(C(cuMemHostRegister_v2)(q, (size_t)4096, 0));
	P(C(cuCtxDestroy_v2)(c));
	P(C(cuMemFree_v2)(d));
	P(C(cuMemFree_v2)(e));
	P(C(cuMemFreeHost)(pinned));
	P(C(cuMemHostUnregister)(q));
	P(C(cuCtxSetCurrent)(p));
	P(C(cuCtxDestroy_v2)(p));
	P(C(cuCtxGetCurrent)(&p));
	printf("  current %s\n", p ? "set" : "NULL");
}

static void host_memory(void)
{
	void *p = NULL, *q = aligned_alloc(4096, 8192);
	u64 d = 0;
	size_t size = 77;
	int type = -7;

	puts("-- host memory");
	P(C(cuMemAllocHost_v2)(&p, (size_t)0));
	P(C(cuMemHostAlloc)(&p, (size_t)0, 0));
	P(C(cuMemHostAlloc)(&p, (size_t)100, 0xff0));
	P(C(cuMemAllocHost_v2)(&p, (size_t)100));
	P(C(cuPointerGetAttribute)(&type, 2, (u64)p));
	printf("  pinned memory type %d\n", type);
	P(C(cuMemGetAddressRange_v2)(&d, &size, (u64)p));
	printf("  range %d %zu\n", d == (u64)p, size);
	P(C(cuMemFreeHost)((char *)p + 8));
	P(C(cuMemHostRegister_v2)(p, (size_t)4096, 0));
	P(C(cuMemHostUnregister)(p));
	P(C(cuMemFreeHost)(p));
	P(C(cuMemFreeHost)(p));
	P(C(cuMemAllocHost_v2)(&p, (size_t)100));
	P(C(cuMemFree_v2)((u64)p));
	P(C(cuMemFreeHost)(p));
	P(C(cuMemFreeHost)(p));
	P(C(cuMemFreeHost)(NULL));
	P(C(cuMemFreeHost)(q));
	P(C(cuMemAllocHost_v2)(NULL, (size_t)100));
	P(C(cuMemAllocHost_v2)(&p, (size_t)1 << 50));
	P(C(cuMemHostRegister_v2)(q, (size_t)8192, 0));
	P(C(cuMemHostRegister_v2)(q, (size_t)8192, 0));
	P(C(cuMemHostRegister_v2)((char *)q + 4096, (size_t)4096, 0));
	P(C(cuMemHostUnregister)((char *)q + 4096));
	P(C(cuMemFreeHost)(q));
	P(C(cuMemHostUnregister)(q));
	P(C(cuMemHostUnregister)(q));
	P(C(cuMemHostUnregister)(NULL));
	P(C(cuMemHostRegister_v2)(NULL, (size_t)8192, 0));
	P(C(cuMemHostRegister_v2)(q, (size_t)0, 0));
	P(C(cuMemAlloc_v2)(&d, (size_t)100));
	P(C(cuMemFreeHost)((void *)d));
	P(C(cuMemFree_v2)(d));
}

static void pitched(void)
{
	u64 e = 77;
	size_t pitch2 = 0;

	puts("-- pitch");
	P(C(cuMemAllocPitch_v2)(&e, &pitch2, (size_t)100, (size_t)10, 4u));
	printf("  pitch %zu\n", pitch2);
	P(C(cuMemFree_v2)(e));
	P(C(cuMemAllocPitch_v2)(&e, &pitch2, (size_t)100, (size_t)10, 3u));
	P(C(cuMemAllocPitch_v2)(&e, &pitch2, (size_t)0, (size_t)10, 4u));
	P(C(cuMemAllocPitch_v2)(&e, &pitch2, (size_t)100, (size_t)0, 4u));
	P(C(cuMemAllocPitch_v2)(&e, NULL, (size_t)100, (size_t)10, 4u));
	P(C(cuMemAllocPitch_v2)(NULL, &pitch2, (size_t)100, (size_t)10, 4u));
}

static void blocks(void)
{
	u64 d = 77, e = 77;
	size_t size = 77, total_bytes, before, after;
	int type = -7;

	puts("-- blocks");
	P(C(cuMemAlloc_v2)(NULL, (size_t)100));
	P(C(cuMemAlloc_v2)(&d, (size_t)0));
	printf("  out parameter %llu\n", d);
	d = 77;
	P(C(cuMemAlloc_v2)(&d, (size_t)1 << 50));
	printf("  out parameter %llu\n", d);
	P(C(cuMemAlloc_v2)(&d, (size_t)-1));
	P(C(cuMemAllocManaged)(&d, (size_t)100, 1));
	P(C(cuPointerGetAttribute)(&type, 2, d));
	printf("  managed memory type %d\n", type);
	P(C(cuMemFree_v2)(d));
	P(C(cuMemAllocManaged)(&d, (size_t)100, 0));
	P(C(cuMemAllocManaged)(&d, (size_t)100, 8));
	P(C(cuMemAllocManaged)(&d, (size_t)0, 1));
	P(C(cuMemAllocManaged)(&d, (size_t)1 << 50, 1));
	P(C(cuMemAllocManaged)(NULL, (size_t)100, 1));
	C(cuMemGetInfo_v2)(&before, &total_bytes);
	C(cuMemAlloc_v2)(&d, (size_t)5 << 20);
	C(cuMemGetInfo_v2)(&after, &total_bytes);
	printf("  5 MiB costs %zu\n", before - after);
	P(C(cuMemGetAddressRange_v2)(&e, &size, d + 4096));
	printf("  base %d size %zu\n", e == d, size);
	P(C(cuMemGetAddressRange_v2)(NULL, NULL, d));
	P(C(cuMemGetAddressRange_v2)(&e, &size, d + (5 << 20)));
	P(C(cuMemGetAddressRange_v2)(&e, &size, 0x1234ull));
	P(C(cuMemGetAddressRange_v2)(&e, &size, 0ull));
	P(C(cuPointerGetAttribute)(&type, 2, d));
	printf("  device memory type %d\n", type);
	P(C(cuPointerGetAttribute)(&type, 2, 0x1234ull));
	P(C(cuPointerGetAttribute)(NULL, 2, d));
	P(C(cuMemFree_v2)(d + 512));
	P(C(cuMemFree_v2)(d));
	P(C(cuMemFree_v2)(d));
	P(C(cuPointerGetAttribute)(&type, 2, d));
	P(C(cuMemGetInfo_v2)(NULL, &total_bytes));
}

static void async_memory(void)
{
	u64 d = 77;
	void *s = NULL;

	puts("-- stream-ordered memory");
	P(C(cuMemAllocAsync)(&d, (size_t)0, NULL));
	printf("  out parameter %llu\n", d);
	P(C(cuMemAllocAsync)(NULL, (size_t)100, NULL));
	P(C(cuMemAllocAsync)(&d, (size_t)1 << 50, NULL));
	P(C(cuMemAllocAsync)(&d, (size_t)100, NULL));
	P(C(cuMemFreeAsync)(d + 16, NULL));
	P(C(cuMemFree_v2)(d + 16));
	P(C(cuMemFreeAsync)(d, NULL));
	P(C(cuMemFreeAsync)(d, NULL));
	P(C(cuMemFreeAsync)(0ull, NULL));
	P(C(cuMemFreeAsync)(0x1234ull, NULL));
	P(C(cuMemAllocAsync)(&d, (size_t)100, NULL));
	P(C(cuMemFree_v2)(d));
	P(C(cuMemFree_v2)(d));
	P(C(cuMemAlloc_v2)(&d, (size_t)100));
	P(C(cuMemFreeAsync)(d, NULL)); /* a second one is taken too, and crashes the driver later */
	P(C(cuStreamCreate)(&s, 1));
	P(C(cuMemAllocAsync)(&d, (size_t)100, s));
	P(C(cuMemFreeAsync_ptsz)(d, NULL));
	P(C(cuStreamSynchronize)(s));
	P(C(cuStreamDestroy_v2)(s));
	P(C(cuStreamSynchronize)(NULL));
	P(C(cuMemAllocManaged)(&d, (size_t)100, 1));
	P(C(cuMemFreeAsync)(d, NULL));
	P(C(cuMemFree_v2)(d));
}

/* Asked with the names `s` and `mode`, as capture() prints them. */
static void capture_more(void *s, int mode)
{
	void *g = NULL, *t = NULL, *q = aligned_alloc(4096, 4096);
	size_t a;
	u64 d = 0;

	C(cuMemAllocHost_v2)(&t, (size_t)100);
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuMemFreeHost)(t));
	P(C(cuStreamEndCapture)(s, &g));
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuMemHostRegister_v2)(q, (size_t)4096, 0));
	P(C(cuStreamEndCapture)(s, &g));
	C(cuMemHostRegister_v2)(q, (size_t)4096, 0);
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuMemHostUnregister)(q));
	P(C(cuStreamEndCapture)(s, &g));
	C(cuMemHostUnregister)(q);
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuMemGetInfo_v2)(&a, &a));
	P(C(cuMemAlloc_v2)(NULL, (size_t)100));
	P(C(cuMemAlloc_v2)(&d, (size_t)0));
	P(C(cuStreamEndCapture)(s, &g));
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuStreamQuery)(s));
	P(C(cuStreamEndCapture)(s, &g));
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuStreamSynchronize)(NULL));
	P(C(cuStreamEndCapture)(s, &g));
}

static void capture(int mode)
{
	void *s = NULL, *g = NULL, *t = NULL;
	u64 d = 0;
	int was = mode, n = 0;

	printf("-- capture, mode %d\n", mode);
	P(C(cuStreamCreate)(&s, 1));
	P(C(cuStreamEndCapture)(s, &g));
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuStreamIsCapturing)(s, &n));
	printf("  capturing %d\n", n);
	P(C(cuStreamSynchronize)(s));
	P(C(cuStreamIsCapturing)(s, &n));
	printf("  capturing %d\n", n);
	P(C(cuStreamEndCapture)(s, &g));
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuMemAlloc_v2)(&d, (size_t)100));
	P(C(cuStreamIsCapturing)(s, &n));
	printf("  capturing %d\n", n);
	P(C(cuMemAlloc_v2)(&d, (size_t)100));
	P(C(cuMemFree_v2)(0ull));
	P(C(cuStreamEndCapture)(s, &g));
	P(C(cuStreamIsCapturing)(s, &n));
	printf("  capturing %d\n", n);
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuMemFree_v2)(0ull));
	P(C(cuMemFree_v2)(0x1234ull));
	P(C(cuStreamEndCapture)(s, &g));
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuMemAllocHost_v2)(&t, (size_t)100));
	P(C(cuStreamEndCapture)(s, &g));
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuMemAllocManaged)(&d, (size_t)100, 1));
	P(C(cuStreamEndCapture)(s, &g));
	capture_more(s, mode);
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuMemAllocAsync)(&d, (size_t)100, s));
	P(C(cuMemFreeAsync)(d, s));
	P(C(cuStreamEndCapture)(s, &g));
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuMemAllocAsync)(&d, (size_t)100, NULL));
	P(C(cuStreamEndCapture)(s, &g));
	P(C(cuStreamBeginCapture_v2)(s, mode));
	P(C(cuThreadExchangeStreamCaptureMode)(&(int){ 2 }));
	P(C(cuMemAlloc_v2)(&d, (size_t)100));
	was = 0;
	P(C(cuThreadExchangeStreamCaptureMode)(&was));
	printf("  was %d\n", was);
	P(C(cuStreamEndCapture)(s, &g));
	P(C(cuStreamDestroy_v2)(s));
	P(C(cuStreamBeginCapture_v2)(NULL, mode));
	P(C(cuThreadExchangeStreamCaptureMode)(&(int){ 7 }));
}

static void forked(int init_again)
{
	u64 d = 0, e = 0;
	void *c = NULL;
	int n;

	printf("-- fork, cuInit again: %d\n", init_again);
	C(cuInit)(0);
	C(cuCtxCreate_v2)(&c, 0, 0);
	C(cuMemAlloc_v2)(&d, (size_t)100);
	fflush(stdout);
	if (!fork()) {
		if (init_again)
			P(C(cuInit)(0));
		P(C(cuMemFree_v2)(0ull));
		P(C(cuMemAlloc_v2)(&e, (size_t)100));
		P(C(cuMemFree_v2)(d));
		P(C(cuCtxGetCurrent)(&c));
		P(C(cuDriverGetVersion)(&n));
		P(C(cuDeviceGetCount)(&n));
		P(C(cuDevicePrimaryCtxRetain)(&c, 0));
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
	P(C(cuMemFree_v2)(d));
}

static u64 left;

__attribute__((destructor)) static void last(void)
{
	void *c;
	int n;
	size_t a, b;

	if (!left)
		return;
	puts("-- in a destructor, after exit handlers");
	P(C(cuMemFree_v2)(left));
	P(C(cuMemAlloc_v2)(&left, (size_t)100));
	P(C(cuMemFree_v2)(0ull));
	P(C(cuCtxGetCurrent)(&c));
	P(C(cuCtxSynchronize)());
	P(C(cuMemGetInfo_v2)(&a, &b));
	P(C(cuDriverGetVersion)(&n));
	P(C(cuDeviceGetCount)(&n));
	P(C(cuMemFreeHost)(NULL));
	P(C(cuInit)(0));
	P(C(cuGetProcAddress_v2)("cuMemAlloc", &c, 12000, 0ull, &n));
	P(C(cuDevicePrimaryCtxReset_v2)(0));
}

int main(int argc, char **argv)
{
	void *c;
	const char *what = argc > 1 ? argv[1] : "calls";

	setvbuf(stdout, NULL, _IOLBF, 0);
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (!lib)
		return puts(dlerror()), 1;
	if (!strcmp(what, "resolver"))
		return resolver(argv[2]), 0;
	if (!strcmp(what, "fork"))
		return forked(argc > 2), 0;
	before_init();
	primary();
	contexts();
	P(C(cuCtxCreate_v2)(&c, 0, 0));
	host_memory();
	pitched();
	blocks();
	async_memory();
	for (int mode = 0; mode < 3; mode++)
		capture(mode);
	P(C(cuMemAlloc_v2)(&left, (size_t)100));
	return 0;
}
