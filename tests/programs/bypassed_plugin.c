/* SPDX-License-Identifier: MIT
 *
 * Leaks a block, through functions of the driver that it looks up; see bypassed.c.
 */
#include <dlfcn.h>
#include <stddef.h>

void work(void);

void work(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
	int (*allocate)(unsigned long long *, size_t);
	unsigned long long block;

	((int (*)(unsigned int))dlsym(driver, "cuInit"))(0);
	((int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
	((int (*)(void *))dlsym(driver, "cuCtxSetCurrent"))(context);
	allocate = (int (*)(unsigned long long *, size_t))dlsym(driver, "cuMemAlloc_v2");
	allocate(&block, 5000); /* @leak */
}
