/* SPDX-License-Identifier: MIT
 *
 * 512 MiB of its own, and what the driver takes besides: for a context, then for 16 KiB of stack
 * for every thread that the device can hold. At its end it has nvidia-smi say what it holds.
 * Links libcuda alone.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void must(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	printf("%s: %d\n", what, r);
	exit(1);
}

static void grow_stacks(void)
{
	must(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 16384), "cuCtxSetLimit");
}

int main(void)
{
	CUcontext context;
	CUdeviceptr kept;
	char command[160];

	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	must(cuMemAlloc(&kept, (size_t)512 << 20), "cuMemAlloc");
	sleep(1);
	grow_stacks();
	sleep(1);
	snprintf(command, sizeof(command),
		 "nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits"
		 " | sed -n 's/^%d, */smi MiB: /p'", (int)getpid());
	return system(command) != 0;
}
