/* SPDX-License-Identifier: MIT
 *
 * Lets contexts take their blocks with them: by destroying one, by resetting the primary
 * one, and by freeing a block after its context has gone.
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

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	CUcontext context = NULL, primary;
	CUdeviceptr address;

	begin();
	must(cuDevicePrimaryCtxRetain(&primary, 0), "retain");
	if (strcmp(what, "reset") == 0) {
		allocate(1000);
		allocate(2000);
		must(cuDevicePrimaryCtxReset_v2(0), "reset");
		return 0;
	}
	allocate(500); /* @primary */
	must(cuCtxCreate_v2(&context, 0, 0), "create");
	allocate(1000);
	address = allocate(2000); /* @gone */
	must(cuCtxDestroy_v2(context), "destroy"); /* @destroy */
	must(cuCtxSetCurrent(primary), "set current");
	if (strcmp(what, "free") == 0)
		free_late(address); /* @main_late */
	return 0;
}
