/* SPDX-License-Identifier: MIT
 *
 * Behaves as a CUDA runtime that is linked statically: after the driver has shut down, cudaFree()
 * answers 4 and calls no driver.
 */
#include <stddef.h>

typedef unsigned long long CUdeviceptr;
int cuMemAlloc_v2(CUdeviceptr *ret, size_t bytes);
int cuMemFree_v2(CUdeviceptr address);
int cudaMalloc(CUdeviceptr *ret, size_t bytes);
int cudaFree(CUdeviceptr address);
extern int runtime_ended;

int runtime_ended;

int cudaMalloc(CUdeviceptr *ret, size_t bytes)
{
	int r = cuMemAlloc_v2(ret, bytes);

	__asm__ volatile(""); /* no tail call */
	return r;
}

int cudaFree(CUdeviceptr address)
{
	return runtime_ended ? 4 : cuMemFree_v2(address);
}
