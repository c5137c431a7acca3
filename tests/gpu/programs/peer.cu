/* SPDX-License-Identifier: MIT
 *
 * Two devices with peer access: blocks on both, copies between them, frees with the other one
 * current; leaks 1,000,003 bytes on device 0 and 2,000,003 on device 1 and nothing else.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                          \
	do {                                                                                 \
		cudaError_t error = (call);                                                  \
		if (error != cudaSuccess) {                                                  \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));       \
			exit(1);                                                             \
		}                                                                            \
	} while (0)

__global__ void add(int *to, const int *from, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		to[i] += from[i]; /* the other device's memory */
}

int main(void)
{
	const int n = 1 << 20;
	int *block[2], *leak, first;
	void *stream_ordered;

	for (int device = 0; device < 2; device++) {
		CHECK(cudaSetDevice(device));
		CHECK(cudaDeviceEnablePeerAccess(1 - device, 0));
		CHECK(cudaMalloc((void **)&block[device], n * sizeof(int)));
		CHECK(cudaMemset(block[device], device + 1, n * sizeof(int)));
		CHECK(cudaMalloc((void **)&leak, 1000000 * (device + 1) + 3));
		CHECK(cudaMallocAsync(&stream_ordered, 12345, 0));
		CHECK(cudaFreeAsync(stream_ordered, 0));
	}
	CHECK(cudaDeviceSynchronize());
	add<<<n / 256, 256>>>(block[1], block[0], n);
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpyPeer(block[0], 0, block[1], 1, n * sizeof(int)));
	CHECK(cudaMemcpy(&first, block[0], sizeof(first), cudaMemcpyDefault));
	CHECK(cudaFree(block[0])); /* device 1 is current */
	CHECK(cudaFree(block[1]));
	printf("%#x\n", first);
	printf("{\"figures\": [{\"name\": \"device 0\", \"bytes\": 1000003, \"device\": 0, \"kinds\": [\"device\"]}, "
	       "{\"name\": \"device 1\", \"bytes\": 2000003, \"device\": 1, \"kinds\": [\"device\"]}]}\n");
	return 0;
}
