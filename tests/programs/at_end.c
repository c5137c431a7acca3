/* SPDX-License-Identifier: MIT
 *
 * Frees at the last moment, each block from another place: atexit handlers from before and
 * after cuInit, destructors of the program, of a library it is linked to (at_end_lib.c) and
 * of one it opened and never closed, and what quick_exit calls. One block is freed by nobody.
 */
#include <dlfcn.h>
#include <string.h>

#include "at_end.h"
#include "cu.h"

static CUdeviceptr by_early_handler, by_handler, by_destructor;

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @allocate */
	return address;
}

static void free_early_handler(void)
{
	cuMemFree_v2(by_early_handler); /* @free_early */
}

static void free_handler(void)
{
	cuMemFree_v2(by_handler);
}

__attribute__((destructor)) static void free_destructor(void)
{
	cuMemFree_v2(by_destructor); /* @free_late */
}

static void open_plugin(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW);
	void (*start)(void) = plugin ? (void (*)(void))dlsym(plugin, "at_end_start") : NULL;

	if (!start) {
		printf("%s: %s\n", path, dlerror());
		exit(1);
	}
	start(); /* @plugin */
}

int main(int argc, char **argv)
{
	int quick = argc > 1 && strcmp(argv[1], "quick") == 0;

	atexit(free_early_handler);
	begin();
	at_quick_exit(free_handler);
	atexit(free_handler);
	by_early_handler = allocate(1000); /* @first */
	by_handler = allocate(2000);
	by_destructor = allocate(3000); /* @third */
	at_end_start(); /* @start */
	if (argc > 1 && !quick)
		open_plugin(argv[1]); /* @main_plugin */
	allocate(70); /* @nobody */
	printf("started\n");
	fflush(stdout);
	if (quick)
		quick_exit(0);
	return 0;
}
