/* SPDX-License-Identifier: MIT
 *
 * What guard_pages.sh runs: `guard touch BYTES OFFSET w|r [freed]` touches a byte of a block, `guard pairs`
 * times a pair of cudaMalloc and cudaFree, `guard waits` prints whether a free of a small block waits
 * for a kernel of another stream, `guard kernel` launches by a CUkernel.
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>

__global__ void touch(char *p, long offset, int writes, int *got)
{
	if (writes)
		p[offset] = 1;
	else
		*got = p[offset];
}

__global__ void spin(long long clocks)
{
	for (long long start = clock64(); clock64() - start < clocks;)
		;
}

static double now()
{
	return std::chrono::duration<double, std::micro>(
		       std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char **argv)
{
	char *p = nullptr, *small = nullptr;
	int *got = nullptr;

	cudaMalloc(&got, 1 << 20);
	if (argc > 4 && !strcmp(argv[1], "touch")) {
		cudaMalloc(&p, strtoul(argv[2], nullptr, 10));
		if (argc > 5)
			cudaFree(p);
		touch<<<1, 1>>>(p, atol(argv[3]), argv[4][0] == 'w', got);
		printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
	} else if (argc > 1 && !strcmp(argv[1], "pairs")) {
		double best = 1e9;

		for (int round = 0; round < 7; round++) {
			double begin = now();

			for (int i = 0; i < 300; i++) {
				cudaMalloc(&p, 1000);
				cudaFree(p);
			}
			best = (now() - begin) / 300 < best ? (now() - begin) / 300 : best;
		}
		printf("%.1f us\n", best);
	} else if (argc > 1 && !strcmp(argv[1], "waits")) {
		cudaStream_t stream;
		double begin;

		cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
		cudaMalloc(&p, 4 << 20);
		cudaMalloc(&small, 1);
		cudaDeviceSynchronize();
		spin<<<1, 1, 0, stream>>>(200000000);
		begin = now();
		cudaFree(small);
		printf("free of 1 byte %s\n", now() - begin > 20000 ? "waited" : "did not wait");
		cudaDeviceSynchronize();
		spin<<<1, 1, 0, stream>>>(200000000);
		begin = now();
		cudaFree(p);
		printf("free of 4 MiB %s\n", now() - begin > 20000 ? "waited" : "did not wait");
	} else if (argc > 1 && !strcmp(argv[1], "kernel")) {
		cudaKernel_t kernel;
		long offset = 0;
		int writes = 1;
		void *params[] = { &p, &offset, &writes, &got };

		cudaMalloc(&p, 1000);
		cudaFree(p);
		cudaGetKernel(&kernel, (const void *)touch);
		printf("launch %d", (int)cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, nullptr,
							params, nullptr));
		printf(", %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
	}
	return 0;
}
