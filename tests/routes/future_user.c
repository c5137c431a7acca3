/* SPDX-License-Identifier: MIT
 *
 * Asks future.c's driver for both of its cuMemAllocs and uses them, the old one once: that
 * block is the tracer's to see, the new function must be the driver's own.
 */
#include <dlfcn.h>
#include <string.h>

#include "cu.h"

int main(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW), *found = NULL;
	CUresult (*alloc2)(CUdeviceptr *, size_t), (*alloc3)(size_t, int, CUdeviceptr *);
	resolve5 *resolver;
	CUdeviceptr address;
	Dl_info info;
	int status = 77;

	need(handle, "libcuda.so.1");
	*(void **)&resolver = dlsym(handle, "cuGetProcAddress_v2");
	must(resolver("cuInit", &found, 14000, 0, &status), "cuInit");
	must(((CUresult(*)(unsigned int))found)(0), "cuInit");
	must(resolver("cuMemAlloc", (void **)&alloc2, 13000, 0, &status), "13000");
	must(resolver("cuMemAlloc", (void **)&alloc3, 14000, 0, &status), "14000");
	must(alloc2(&address, LEAK_BYTES), "alloc2");
	must(alloc3(PAIR_BYTES, 42, &address), "alloc3");
	if (!dladdr((void *)alloc3, &info) || !info.dli_sname)
		return 1;
	printf("%s, status %d\n", info.dli_sname, status);
	return 0;
}
