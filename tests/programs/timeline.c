/* SPDX-License-Identifier: MIT
 *
 * Device memory that grows step by step beside pinned memory that comes and goes, slowly
 * enough for a timeline.
 */
#include <time.h>

#include "cu.h"

#define MIB ((size_t)1 << 20)
#define STEPS 8

int main(void)
{
	const struct timespec nap = { .tv_nsec = 30000000 };
	CUdeviceptr address;
	CUcontext context;
	void *pinned;

	must(cuInit(0), "cuInit");
	must(cuCtxCreate_v2(&context, 0, 0), "cuCtxCreate_v2");
	for (int step = 0; step < STEPS; step++) {
		must(cuMemAllocHost_v2(&pinned, 4 * MIB), "host");
		must(cuMemAlloc_v2(&address, MIB), "alloc"); /* @step */
		nanosleep(&nap, NULL);
		must(cuMemAlloc_v2(&address, 256), "alloc"); /* the moment that is kept */
		must(cuMemFree_v2(address), "free");
		if (step != STEPS - 1)
			must(cuMemFreeHost(pinned), "free host");
		nanosleep(&nap, NULL);
	}
	return 0;
}
