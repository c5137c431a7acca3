/* SPDX-License-Identifier: MIT
 *
 * Cost of a kernel launch: 200,000 of them, ns each. gpuleak intercepts none, so there
 * must be no difference.
 */
#include <chrono>
#include <cstdio>

__global__ void nothing() {}

int main()
{
	nothing<<<1, 1>>>();
	cudaDeviceSynchronize();
	auto start = std::chrono::steady_clock::now();
	for (int i = 0; i < 200000; i++)
		nothing<<<1, 1>>>();
	cudaDeviceSynchronize();
	printf("%.1f\n", std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / 200000);
	return 0;
}
