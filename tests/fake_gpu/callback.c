/* SPDX-License-Identifier: MIT
 *
 * Frees in functions that the driver calls for a stream. The runtime refuses them and does not call
 * the driver. Prints the results. One of the blocks is freed later.
 */
#include <stdio.h>

#include "cudart.h"

static void *stays, *freed_later;

static void host_function(void *data)
{
	cudaError_t first = cudaFreeHost(stays);
	cudaError_t second = cudaFreeHost(freed_later);

	printf("host function: %d, %d, %d\n", first, second, cudaFree(data));
}

static void callback(cudaStream_t stream, cudaError_t status, void *data)
{
	(void)stream;
	printf("callback: %d, %d\n", status, cudaFreeHost(data));
}

int main(void)
{
	if (cudaMallocHost(&stays, 4096))
		return 1;
	if (cudaMallocHost(&freed_later, 100) ||
	    cudaStreamAddCallback(NULL, callback, stays, 0) ||
	    cudaLaunchHostFunc(NULL, host_function, NULL) || cudaStreamSynchronize(NULL))
		return 1;
	printf("main: %d\n", cudaFreeHost(freed_later));
	return 0;
}
