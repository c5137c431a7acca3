/* SPDX-License-Identifier: MIT
 *
 * Two preloads that hook dlsym: the other one's name and ours must both be answered by
 * whom they belong to, in both orders.
 */
#include <dlfcn.h>
#include <string.h>

#include "cu.h"

int main(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	int (*version)(int *), (*lookups)(void), n = 0;
	struct driver driver;

	need(handle, "libcuda.so.1");
	*(void **)&driver.init = dlsym(handle, "cuInit");
	*(void **)&driver.retain = dlsym(handle, "cuDevicePrimaryCtxRetain");
	*(void **)&driver.set_current = dlsym(handle, "cuCtxSetCurrent");
	*(void **)&driver.alloc = dlsym(handle, "cuMemAlloc_v2");
	*(void **)&driver.free = dlsym(handle, "cuMemFree_v2");
	*(void **)&version = dlsym(handle, "cuDriverGetVersion");
	*(void **)&lookups = dlsym(RTLD_DEFAULT, "hook_lookups");
	need((void *)lookups, "hook_lookups");
	must(version(&n), "version");
	printf("version %d, hook saw %s\n", n, lookups() >= 7 ? "them all" : "too few");
	work(&driver);
	return 0;
}
