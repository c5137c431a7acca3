// SPDX-License-Identifier: MIT
//
// What an extension of a framework brings: kernels and copies that take addresses of its tensors.
// planted_frameworks.py loads it and calls it. Makes no block itself.
#include <cuda_runtime.h>
#include <stdint.h>

static __global__ void write_bytes(uint8_t *block, long from, long count)
{
	for (long i = threadIdx.x; i < count; i += blockDim.x)
		block[from + i] = (uint8_t)((from + i) % 97 + 1);
}

static __global__ void sum_bytes(int *sum, const uint8_t *block, long from, long count)
{
	for (long i = threadIdx.x; i < count; i += blockDim.x)
		atomicAdd(sum, block[from + i]);
}

extern "C" int extension_write(void *block, long from, long count)
{
	write_bytes<<<1, 128>>>((uint8_t *)block, from, count); // @access
	return cudaDeviceSynchronize();
}

extern "C" int extension_sum(void *sum, void *block, long from, long count)
{
	sum_bytes<<<1, 128>>>((int *)sum, (uint8_t *)block, from, count); // @access
	return cudaDeviceSynchronize();
}

extern "C" int extension_copy(void *to, void *from, long bytes)
{
	return cudaMemcpy(to, from, bytes, cudaMemcpyDefault); // @access
}

extern "C" int extension_set(void *block, int value, long bytes)
{
	return cudaMemset(block, value, bytes); // @access
}
