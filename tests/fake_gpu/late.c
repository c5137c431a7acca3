/* SPDX-License-Identifier: MIT
 *
 * Calls of the runtime in an exit handler of the program. The runtime has ended then.
 * Prints the results. With an argument it is registered later and so runs before that end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cudart.h"

static void *device, *pinned;

static void late(void)
{
	int count = 0;

	printf("free: %d, host: %d", cudaFree(device), cudaFreeHost(pinned));
	printf(", malloc: %d, set: %d", cudaMalloc(&device, 10), cudaSetDevice(0));
	printf(", count: %d, last: %d\n", cudaGetDeviceCount(&count), cudaGetLastError());
}

int main(int argc, char **argv)
{
	(void)argv;
	if (argc == 1)
		atexit(late);
	if (cudaMalloc(&device, 5000) || cudaMallocHost(&pinned, 100))
		return 1;
	if (argc > 1)
		atexit(late);
	return 0;
}
