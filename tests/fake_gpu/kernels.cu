/* SPDX-License-Identifier: MIT
 *
 * What nvcc makes of kernels, variables and launches, without a GPU. Leaks one block.
 *
 * kernels [launch]
 */
#include <cstdio>

__device__ int counter[4];
__constant__ float factor;
__managed__ int managed;
__device__ int seed = 7;

__global__ void scale(float *values, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		values[i] *= factor;
	atomicAdd(&counter[0], managed + seed);
}

template <typename T> static T *make(size_t count)
{
	T *made = nullptr;

	cudaMalloc(&made, count * sizeof(T)); /* leaked here */
	return made;
}

static void launch(float *values)
{
	cudaFuncAttributes attributes;
	int blocks = -1, smallest, best;

	scale<<<4, 64>>>(values, 256);
	printf("launch: %s\n", cudaGetErrorName(cudaGetLastError()));
	scale<<<4, 4096>>>(values, 256);
	printf("too many threads: %s\n", cudaGetErrorName(cudaGetLastError()));
	printf("attributes: %s\n", cudaGetErrorName(cudaFuncGetAttributes(&attributes, scale)));
	printf("attribute: %s\n", cudaGetErrorName(cudaFuncSetAttribute(
					  scale, cudaFuncAttributeMaxDynamicSharedMemorySize, 1000)));
	printf("occupancy: %s\n", cudaGetErrorName(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
					  &blocks, scale, 64, 0)));
	cudaOccupancyMaxPotentialBlockSize(&smallest, &best, scale);
}

int main(int argc, char **argv)
{
	float values[256] = { 1, 2, 3 }, two = 2, back = 0;
	int counts[4] = { 1, 2, 3, 4 }, got[4] = { 0 }, first = 0;
	void *address = nullptr;
	float *kept = make<float>(256);

	(void)argv;
	managed += 8;
	cudaMemcpy(kept, values, sizeof(values), cudaMemcpyHostToDevice);
	cudaMemcpyToSymbol(factor, &two, sizeof(two));
	cudaMemcpyFromSymbol(&back, factor, sizeof(back));
	cudaMemcpyToSymbol(counter, counts, sizeof(counts));
	cudaMemcpyFromSymbol(got, counter, 8, 4);
	cudaGetSymbolAddress(&address, seed);
	cudaMemcpy(&first, address, sizeof(first), cudaMemcpyDeviceToHost);
	printf("variables: %d %g %d %d %d\n", managed, back, got[0], got[1], first);
	if (argc > 1)
		launch(kept);
	return 0;
}
