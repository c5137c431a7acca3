/* SPDX-License-Identifier: MIT
 *
 * A plugin that looks the driver up by itself, as one with a static CUDA runtime does. Before,
 * it opens a library that only its own DT_RUNPATH ($ORIGIN/beside) finds.
 */
#include <dlfcn.h>
#include <unistd.h>

#include "cu.h"

static void open_beside(void)
{
	int (*answer)(void);
	void *handle = dlopen("libroutes-beside.so", RTLD_NOW);

	if (!handle)
		printf("%s\n", dlerror());
	need(handle, "libroutes-beside.so");
	*(void **)&answer = dlsym(handle, "beside_answer");
	need((void *)answer, "beside_answer");
	printf("beside: %d\n", answer());
}

void plugin_work(void);
void plugin_work(void)
{
	static const char text[] = "worked\n";
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	struct driver driver;

	open_beside();
	need(handle, "libcuda.so.1");
	*(void **)&driver.init = dlsym(handle, "cuInit");
	*(void **)&driver.retain = dlsym(handle, "cuDevicePrimaryCtxRetain");
	*(void **)&driver.set_current = dlsym(handle, "cuCtxSetCurrent");
	*(void **)&driver.alloc = dlsym(handle, "cuMemAlloc_v2");
	start(&driver);
	leak_here(&driver);
	fflush(NULL);
	if (write(1, text, sizeof(text) - 1) < 0)
		return;
}
