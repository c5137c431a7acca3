// SPDX-License-Identifier: MIT
//
// A static object that was made before the driver, and is therefore destroyed after it. Its
// destructor frees one block of each kind, and the runtime answers cudaErrorCudartUnloading.
#include <cstdio>

#include <cuda_runtime.h>

struct Holder {
	void *device = nullptr, *pinned = nullptr, *ordered = nullptr;
	cudaArray_t array = nullptr;

	void fill()
	{
		cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();

		cudaMalloc(&device, 1 << 20);
		cudaMallocHost(&pinned, 4096);
		cudaMallocAsync(&ordered, 1 << 16, nullptr);
		cudaMallocArray(&array, &floats, 64, 64);
	}

	~Holder()
	{
		std::printf("late: %d %d %d %d\n", cudaFree(device), cudaFreeHost(pinned),
			    cudaFreeAsync(ordered, nullptr), cudaFreeArray(array));
	}
};
static Holder holder;

int main()
{
	holder.fill();
	return 0;
}
