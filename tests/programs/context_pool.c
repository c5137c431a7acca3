/* SPDX-License-Identifier: MIT
 *
 * Contexts end while blocks of a pool are live, kept and parts of larger ones: one after another,
 * until all of their memory together would be more than four times the device's.
 *
 *   context_pool destroyed|released|reset [ROUNDS [MIB]]
 *
 * MIB is the size of a kept block; a live one has twice as much.
 */
#include <stdlib.h>
#include <string.h>

#include "cu.h"

#define MIB ((size_t)1 << 20)

static size_t kept_bytes = 128 * MIB;

/* Two blocks that stay, a kept one, and parts of larger blocks. Returns the first one. */
static CUdeviceptr fill(void)
{
	CUdeviceptr live, part, kept;

	must(cuMemAlloc_v2(&kept, kept_bytes), "alloc");
	must(cuMemFree_v2(kept), "free");
	must(cuMemAlloc_v2(&part, 4096), "alloc");
	must(cuMemAlloc_v2(&kept, 4096), "alloc");
	must(cuMemFree_v2(kept), "free");
	must(cuMemAlloc_v2(&live, 2 * kept_bytes), "alloc"); /* @live */
	return live;
}

static CUdeviceptr destroyed(void)
{
	CUcontext context;
	CUdeviceptr live;

	must(cuCtxCreate_v2(&context, 0, 0), "create");
	live = fill(); /* @in_context */
	must(cuCtxDestroy_v2(context), "destroy");
	return live;
}

static CUdeviceptr ended(int reset)
{
	CUcontext primary;
	CUdeviceptr live;

	must(cuDevicePrimaryCtxRetain(&primary, 0), "retain");
	must(cuCtxSetCurrent(primary), "current");
	live = fill();
	must(reset ? cuDevicePrimaryCtxReset_v2(0) : cuDevicePrimaryCtxRelease_v2(0), "end");
	if (reset)
		cuDevicePrimaryCtxRelease_v2(0);
	return live;
}

int main(int argc, char **argv)
{
	const char *story = argc > 1 ? argv[1] : "destroyed";
	int rounds = argc > 2 ? atoi(argv[2]) : 200;
	CUcontext last;
	CUdeviceptr live = 0;

	if (argc > 3)
		kept_bytes = (size_t)atoi(argv[3]) * MIB;
	must(cuInit(0), "init");
	for (int i = 0; i < rounds; i++)
		live = strcmp(story, "destroyed") == 0 ? destroyed()
						       : ended(strcmp(story, "reset") == 0);
	must(cuCtxCreate_v2(&last, 0, 0), "create");
	printf("late: %d\n", cuMemFree_v2(live)); /* @late */
	return 0;
}
