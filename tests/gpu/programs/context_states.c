/* SPDX-License-Identifier: MIT
 *
 * Prints what a program can see of its contexts while it allocates and frees: whether the primary
 * context is active, which context is current, and what a free without a current context answers.
 * A pool must not change any of it: run.sh compares the lines with those of a run without gpuleak.
 */
#include "cu.h"

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active);
CUresult cuCtxGetCurrent(CUcontext *context);

static void say(const char *when)
{
	unsigned int flags;
	CUcontext current;
	int active;

	must(cuDevicePrimaryCtxGetState(0, &flags, &active), "state");
	must(cuCtxGetCurrent(&current), "current");
	printf("%s: primary context %s, %s current\n", when, active ? "active" : "not active",
	       current ? "a context" : "no context");
}

/* A context of the program's own, and no primary one. */
static void own_context(void)
{
	CUcontext context;
	CUdeviceptr first, second;

	must(cuCtxCreate_v2(&context, 0, 0), "create");
	must(cuMemAlloc_v2(&first, 3 << 20), "alloc");
	must(cuMemAlloc_v2(&second, 4096), "alloc");
	say("own context, two blocks");
	must(cuMemFree_v2(first), "free");
	say("own context, one block");
	must(cuCtxSetCurrent(NULL), "none current");
	printf("own context, freed while no context is current: %d\n", cuMemFree_v2(second));
	must(cuCtxSetCurrent(context), "current");
	must(cuCtxDestroy_v2(context), "destroy");
	say("own context destroyed");
}

static void primary_context(void)
{
	CUcontext context;
	CUdeviceptr first, second;

	must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
	must(cuCtxSetCurrent(context), "current");
	must(cuMemAlloc_v2(&first, 3 << 20), "alloc");
	must(cuMemAlloc_v2(&second, 4096), "alloc");
	must(cuMemFree_v2(first), "free");
	must(cuCtxSetCurrent(NULL), "none current");
	printf("primary context, freed while no context is current: %d\n", cuMemFree_v2(second));
	must(cuCtxSetCurrent(context), "current");
	must(cuMemAlloc_v2(&first, 5 << 20), "alloc");
	must(cuDevicePrimaryCtxRelease_v2(0), "release");
	say("primary context released once, with a live block");
}

int main(void)
{
	must(cuInit(0), "init");
	say("start");
	own_context();
	primary_context();
	return 0;
}
