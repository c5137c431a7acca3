/* SPDX-License-Identifier: MIT
 *
 * Works before main, and before any preload's constructor: in the program's own
 * DT_PREINIT_ARRAY (-DPREINIT, looked up and linked), or as a library that the program
 * links (its constructor runs before those of preloads).
 */
#include <dlfcn.h>
#include <string.h>

#include "cu.h"

static void early(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	struct driver driver = LINKED_DRIVER;
	void *failed;

	need(handle, "libcuda.so.1");
	failed = dlsym(handle, "cuMemAllocNothing");
	printf("early: %s, %s\n", failed ? "found" : "not found", dlerror() ? "told" : "not told");
	*(void **)&driver.alloc = dlsym(handle, "cuMemAlloc_v2");
	need((void *)driver.alloc, "cuMemAlloc_v2");
	work(&driver);
}

#ifdef PREINIT
static void preinit(int argc, char **argv, char **envp)
{
	(void)argc, (void)argv, (void)envp;
	early();
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit_entry)(int, char **,
										char **) = preinit;
int main(void)
{
	return 0;
}
#else
__attribute__((constructor)) static void construct(void)
{
	early();
}
void early_is_linked(void);
void early_is_linked(void)
{
}
#endif
