/* SPDX-License-Identifier: MIT
 *
 * Finds the driver's functions as CUDA's runtime does: opens the driver, and asks it. Frees one
 * block of three, the last of which it allocates by dlsym().
 */
#include <dlfcn.h>

#include "cu.h"

typedef CUresult look_up(const char *name, void **function, int version, unsigned long long flags,
			 void *status);
typedef CUresult allocate(CUdeviceptr *address, size_t bytes);

static void *driver;

static void *function(const char *name)
{
	void *found = dlsym(driver, name);

	if (!found) {
		printf("%s\n", dlerror());
		exit(1);
	}
	return found;
}

static void *asked(const char *name)
{
	void *found = NULL;

	must(((look_up *)function("cuGetProcAddress_v2"))(name, &found, 12000, 0, NULL), name);
	return found;
}

int main(void)
{
	CUresult (*retain)(CUcontext *context, CUdevice device);
	CUcontext context;
	CUdeviceptr a, b, c;
	int count;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver)
		return 2;
	must(((CUresult (*)(unsigned int))function("cuInit"))(0), "init");
	must(((CUresult (*)(int *))function("cuDeviceGetCount"))(&count), "count");
	retain = (CUresult (*)(CUcontext *, CUdevice))function("cuDevicePrimaryCtxRetain");
	must(retain(&context, 0), "retain");
	must(((CUresult (*)(CUcontext))function("cuCtxSetCurrent"))(context), "current");
	must(((allocate *)asked("cuMemAlloc"))(&a, 1000), "a");
	must(((allocate *)asked("cuMemAlloc"))(&b, 2000), "b"); /* @asked */
	must(((allocate *)function("cuMemAlloc_v2"))(&c, 3000), "c"); /* @looked */
	must(((CUresult (*)(CUdeviceptr))asked("cuMemFree"))(a), "free a");
	printf("%d devices\n", count);
	return 0;
}
