/* SPDX-License-Identifier: MIT
 *
 * The few driver types and calls that the programs here use, and the work that each of
 * them does by whatever route it got its pointers: one block of LEAK_BYTES is lost in
 * leak_here(), one of PAIR_BYTES is freed again.
 */
#ifndef GPULEAK_TESTS_ROUTES_CU_H
#define GPULEAK_TESTS_ROUTES_CU_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef int CUresult;
typedef unsigned long long CUdeviceptr;
typedef unsigned int CUdeviceptr_v1; /* before CUDA 3.2 */
typedef struct CUctx_st *CUcontext;

#ifdef __cplusplus
extern "C" {
#endif
CUresult cuInit(unsigned int flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, int device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuDriverGetVersion(int *version);
#ifdef __cplusplus
}
#endif

typedef CUresult resolve4(const char *, void **, int, uint64_t);
typedef CUresult resolve5(const char *, void **, int, uint64_t, int *);

struct driver {
	CUresult (*init)(unsigned int);
	CUresult (*retain)(CUcontext *, int);
	CUresult (*set_current)(CUcontext);
	CUresult (*alloc)(CUdeviceptr *, size_t);
	CUresult (*free)(CUdeviceptr);
};

#define LINKED_DRIVER \
	{ cuInit, cuDevicePrimaryCtxRetain, cuCtxSetCurrent, cuMemAlloc_v2, cuMemFree_v2 }

enum { LEAK_BYTES = 4097, PAIR_BYTES = 8193 };

static inline void must(CUresult r, const char *what)
{
	if (!r)
		return;
	printf("%s: %d\n", what, r);
	exit(1);
}

static inline void need(const void *pointer, const char *what)
{
	if (pointer)
		return;
	printf("%s: not there\n", what);
	exit(1);
}

/* Noinline, and not a tail call: the frame must be in the stack. */
static __attribute__((noinline, unused)) void leak_here(const struct driver *driver)
{
	CUdeviceptr address;

	must(driver->alloc(&address, LEAK_BYTES), "alloc");
	__asm__ volatile("" ::: "memory");
}

static inline void start(const struct driver *driver)
{
	CUcontext context;

	must(driver->init(0), "init");
	must(driver->retain(&context, 0), "retain");
	must(driver->set_current(context), "set current");
}

static inline void work(const struct driver *driver)
{
	CUdeviceptr address;

	start(driver);
	leak_here(driver);
	must(driver->alloc(&address, PAIR_BYTES), "alloc");
	must(driver->free(address), "free");
	printf("worked\n");
}

#endif
