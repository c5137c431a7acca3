/* SPDX-License-Identifier: MIT
 *
 * Leaks a block, through functions of the driver that it looks up; see bypassed.c. PLUGIN_TAKES is
 * in the environment: one function allocates that block and another one, which is freed.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

void work(void);

typedef int allocate_fn(unsigned long long *, size_t);

static __attribute__((noinline)) unsigned long long take(allocate_fn *allocate, size_t bytes)
{
	unsigned long long block = 0;

	allocate(&block, bytes);
	return block;
}

void work(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
	allocate_fn *allocate;
	unsigned long long block;

	((int (*)(unsigned int))dlsym(driver, "cuInit"))(0);
	((int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
	((int (*)(void *))dlsym(driver, "cuCtxSetCurrent"))(context);
	allocate = (allocate_fn *)dlsym(driver, "cuMemAlloc_v2");
	if (!getenv("PLUGIN_TAKES")) {
		allocate(&block, 5000); /* @leak */
		return;
	}
	block = take(allocate, 100);
	take(allocate, 5000); /* @lose */
	((int (*)(unsigned long long))dlsym(driver, "cuMemFree_v2"))(block);
}
