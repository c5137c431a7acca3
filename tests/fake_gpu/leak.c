/* SPDX-License-Identifier: MIT
 *
 * A program as nvcc makes them: a kernel that is registered and launched, and memory that is not
 * freed. Prints what a launch returns.
 *
 * leak [clean] [launch] [reset]
 */
#include <stdio.h>
#include <string.h>

#include "cudart.h"

static void kernel(void)
{
}

/* <<<1, 32>>> */
static cudaError_t launch(void)
{
	const dim3 one = { 1, 1, 1 }, threads = { 32, 1, 1 };
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
	void *args[1] = { NULL };

	if (__cudaPushCallConfiguration(one, threads, 0, NULL) ||
	    __cudaPopCallConfiguration(&grid, &block, &shared, &stream))
		return -1;
	return cudaLaunchKernel((const void *)kernel, grid, block, args, shared, stream);
}

static void *make(size_t bytes)
{
	void *p = NULL;

	cudaMalloc(&p, bytes); /* leaked here */
	return p;
}

int main(int argc, char **argv)
{
	void **module = __cudaRegisterFatBinary(&module);
	void *kept = make(5000), *freed = make(100);

	__cudaRegisterFunction(module, (const char *)kernel, NULL, "kernel", -1, NULL, NULL, NULL,
			       NULL, NULL);
	__cudaRegisterFatBinaryEnd(module);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "launch") == 0) {
			printf("launch: %s", cudaGetErrorName(launch()));
			printf(", last: %s\n", cudaGetErrorName(cudaGetLastError()));
		}
		if (strcmp(argv[i], "clean") == 0)
			cudaFree(kept);
	}
	cudaFree(freed);
	__cudaUnregisterFatBinary(module);
	return kept ? 0 : 3;
}
