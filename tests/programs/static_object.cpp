/* SPDX-License-Identifier: MIT
 *
 * A static object has memory, one that it points to has some, and a local object has some that
 * nobody frees. The runtime is static_runtime.c.
 */
#include <cstdio>
#include <memory>

#include "cu.h"

extern "C" {
int cudaMalloc(CUdeviceptr *ret, std::size_t bytes);
int cudaFree(CUdeviceptr address);
extern int runtime_ended;
}

struct Buffer {
	CUdeviceptr address = 0;

	void fill(std::size_t bytes)
	{
		must(cudaMalloc(&address, bytes), "fill");
	}

	~Buffer()
	{
		std::printf("~Buffer: %d\n", address ? cudaFree(address) : 0);
	}
};

struct Model {
	char name[600] = "";
	Buffer weights;
	std::unique_ptr<Buffer> cache{new Buffer};
};

static Model model; /* made before the driver, so it is destroyed after it */
static struct Ended { ~Ended() { runtime_ended = 1; } } ended_object;

int main()
{
	CUdeviceptr lost;

	begin();
	model.weights.fill(3000);
	model.cache->fill(2000);
	must(cudaMalloc(&lost, 4000), "lost");
	return 0;
}
