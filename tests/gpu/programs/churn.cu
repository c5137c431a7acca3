/* SPDX-License-Identifier: MIT
 *
 * 2,000 x (cudaMalloc 4 MiB, kernel, cudaFree); prints its own wall time of the loop in
 * ms. With an argument, that many blocks of 1 MiB are leaked before, and the way to end
 * can be named: return, exit, _exit, reset.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <chrono>
#include <unistd.h>

__global__ void touch(char *p) { p[threadIdx.x] = 1; }

static void check(cudaError_t e)
{
	if (e != cudaSuccess) {
		fprintf(stderr, "%s\n", cudaGetErrorString(e));
		exit(1);
	}
}

__attribute__((noinline)) static void leak_some(int n)
{
	for (int i = 0; i < n; i++) {
		void *p;
		check(cudaMalloc(&p, 1 << 20)); /* @leak */
	}
}

int main(int argc, char **argv)
{
	int leaks = argc > 1 ? atoi(argv[1]) : 0;
	const char *end = argc > 2 ? argv[2] : "return";
	int loops = argc > 3 ? atoi(argv[3]) : 2000;

	check(cudaFree(0));
	leak_some(leaks);
	auto start = std::chrono::steady_clock::now();
	for (int i = 0; i < loops; i++) {
		char *p;
		check(cudaMalloc(&p, 4 << 20));
		touch<<<1, 128>>>(p);
		check(cudaFree(p));
	}
	check(cudaDeviceSynchronize());
	double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
	printf("%.2f\n", ms);
	fflush(stdout);
	if (!strcmp(end, "exit"))
		exit(0);
	if (!strcmp(end, "_exit"))
		_exit(0);
	if (!strcmp(end, "reset"))
		check(cudaDeviceReset());
	return 0;
}
