// SPDX-License-Identifier: MIT
//
// A service with a static CUDA runtime that grows, on each device that there is: attach_service
// STEPS [FILE]. Prints `ready` and the number of allocations after 5 seconds of work, and at the end
// all numbers. With FILE it then waits until FILE exists: so the allocations after an attachment are
// those at the end without those at `ready`.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unistd.h>
#include <vector>

static std::vector<void *> sessions;
static unsigned long allocations, frees;

__global__ void fill(float *data, int count, float value)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		data[i] = value + i;
}

static void open_session(float value)
{
	void *data = nullptr;
	if (cudaMalloc(&data, 1 << 18) != cudaSuccess) // @grows
		exit(1);
	allocations++;
	fill<<<256, 256>>>(static_cast<float *>(data), 1 << 16, value);
	sessions.push_back(data);
}

static double request(float value)
{
	float *scratch, first = 0;
	if (cudaMalloc(&scratch, 1 << 20) != cudaSuccess)
		exit(1);
	allocations++;
	fill<<<256, 256>>>(scratch, 1 << 16, value);
	cudaMemcpy(&first, scratch + 7, sizeof(first), cudaMemcpyDeviceToHost);
	cudaFree(scratch);
	frees++;
	return first;
}

int main(int argc, char **argv)
{
	int devices = 0, steps = argc > 1 ? atoi(argv[1]) : 2000;
	time_t began = time(nullptr);
	bool ready = false;
	double sum = 0;

	cudaGetDeviceCount(&devices);
	for (int step = 0; devices && step < steps; step++) {
		cudaSetDevice(step % devices);
		open_session(step);
		sum += request(step);
		usleep(5000);
		if (!ready && time(nullptr) - began > 5) {
			ready = true;
			printf("ready %lu\n", allocations);
			fflush(stdout);
			while (argc > 2 && access(argv[2], F_OK) != 0)
				usleep(1000);
		}
	}
	printf("allocations %lu frees %lu kept %zu sum %.17g\n", allocations, frees, sessions.size(), sum);
	return devices ? 0 : 77;
}
