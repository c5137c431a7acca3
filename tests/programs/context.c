/* SPDX-License-Identifier: MIT
 *
 * Lets contexts take their blocks with them: by destroying one, by resetting or letting go
 * of the primary one, at exit too, and by freeing a block after its context has gone. Works
 * with two devices at a time.
 */
#include <string.h>

#include "cu.h"

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @allocate */
	return address;
}

static void free_late(CUdeviceptr address)
{
	printf("late: %d\n", cuMemFree_v2(address)); /* @late */
}

static void let_go(void)
{
	must(cuDevicePrimaryCtxRelease_v2(0), "release");
	must(cuDevicePrimaryCtxRelease_v2(0), "release"); /* @last */
}

/* What the CUDA runtime does at exit is no decision of the program's. */
static void let_go_at_exit(void)
{
	cuDevicePrimaryCtxRelease_v2(0);
	cuDevicePrimaryCtxRelease_v2(0);
}

static void two_devices(CUcontext first)
{
	CUcontext second;

	must(cuDevicePrimaryCtxRetain(&second, 1), "retain");
	for (int i = 0; i < 3; i++) {
		must(cuCtxSetCurrent(i % 2 ? first : second), "set current");
		allocate(1000); /* @turns */
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	CUcontext context = NULL, primary;
	CUdeviceptr address;

	begin();
	must(cuDevicePrimaryCtxRetain(&primary, 0), "retain");
	if (strcmp(what, "release") == 0) {
		allocate(1000); /* @released */
		let_go(); /* @let_go */
		return 0;
	}
	if (strcmp(what, "at_exit") == 0) {
		allocate(1000); /* @held */
		atexit(let_go_at_exit);
		return 0;
	}
	if (strcmp(what, "devices") == 0) {
		two_devices(primary); /* @devices */
		return 0;
	}
	if (strcmp(what, "reset") == 0) {
		for (size_t bytes = 1000; bytes <= 2000; bytes += 1000)
			allocate(bytes); /* @lost */
		must(cuDevicePrimaryCtxReset_v2(0), "reset"); /* @reset */
		return 0;
	}
	allocate(500); /* @primary */
	must(cuCtxCreate_v2(&context, 0, 0), "create");
	allocate(1000); /* @never_freed */
	address = allocate(2000); /* @gone */
	must(cuCtxDestroy_v2(context), "destroy"); /* @destroy */
	must(cuCtxSetCurrent(primary), "set current");
	if (strcmp(what, "free") == 0)
		free_late(address); /* @main_late */
	return 0;
}
