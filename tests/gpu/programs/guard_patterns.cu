// SPDX-License-Identifier: MIT
//
// Planted writes beside blocks and after their free, by kernels, each with a clean twin ("clean-"
// before the name). Prints a checksum, which a guard must not change, and the time of 2,000 pairs
// of cudaMalloc and cudaFree if the story is "time".
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

static void must(cudaError_t r, const char *what)
{
	if (r == cudaSuccess)
		return;
	printf("%s: %s\n", what, cudaGetErrorString(r));
	exit(1);
}

__global__ void put(unsigned char *p, long from, long bytes, unsigned char value)
{
	for (long i = threadIdx.x; i < bytes; i += blockDim.x)
		p[from + i] = value;
}

__global__ void spin(volatile int *flag)
{
	while (!*flag)
		;
}

static const long BYTES = 1000;

static void *make(size_t bytes)
{
	void *block;

	must(cudaMalloc(&block, bytes), "cudaMalloc");
	return block;
}

static unsigned sum_of(void *block)
{
	unsigned char seen[BYTES];
	unsigned sum = 0;

	must(cudaMemcpy(seen, block, BYTES, cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (unsigned char byte : seen)
		sum += byte;
	return sum;
}

static void beside(bool clean, long from, long bytes)
{
	auto *block = (unsigned char *)make(BYTES);

	put<<<1, 32>>>(block, 0, BYTES, 3);
	if (!clean)
		put<<<1, 32>>>(block, from, bytes, 7);
	printf("sum %u\n", sum_of(block));
	must(cudaFree(block), "cudaFree");
}

static void after_free(bool clean)
{
	auto *block = (unsigned char *)make(BYTES);

	put<<<1, 32>>>(block, 0, BYTES, 3);
	printf("sum %u\n", sum_of(block));
	must(cudaFree(block), "cudaFree");
	if (!clean)
		put<<<1, 32>>>(block, 100, 4, 7);
	must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

// Another stream writes while the block is freed: the free waits for it, as without a guard.
static void other_stream(bool clean)
{
	auto *block = (unsigned char *)make(BYTES);
	cudaStream_t stream;

	must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	for (int i = 0; i < 100; i++)
		put<<<1, 32, 0, stream>>>(block, 0, clean ? BYTES : BYTES + 1, 3);
	must(cudaFree(block), "cudaFree");
	must(cudaStreamDestroy(stream), "cudaStreamDestroy");
	puts("done");
}

// A kernel that fills the device waits for the host, which allocates: no deadlock.
static void busy()
{
	int *flag, device = 0, processors = 0;
	void *block;

	must(cudaHostAlloc(&flag, sizeof(*flag), cudaHostAllocMapped), "cudaHostAlloc");
	must(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "attribute");
	*(volatile int *)flag = 0;
	put<<<1, 1>>>((unsigned char *)make(BYTES), 0, 1, 1); // loads the code
	must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	spin<<<processors * 2, 1024>>>(flag);
	block = make(BYTES);
	*(volatile int *)flag = 1;
	must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	must(cudaFree(block), "cudaFree");
	puts("no deadlock");
}

static void captured()
{
	auto *block = (unsigned char *)make(BYTES);
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	must(cudaStreamCreate(&stream), "cudaStreamCreate");
	must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "begin");
	put<<<1, 32, 0, stream>>>(block, 0, BYTES, 5);
	auto *other = (unsigned char *)make(BYTES);
	must(cudaStreamEndCapture(stream, &graph), "end");
	must(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
	must(cudaGraphLaunch(exec, stream), "launch");
	must(cudaStreamSynchronize(stream), "synchronize");
	printf("sum %u\n", sum_of(block));
	must(cudaFree(other), "cudaFree");
	must(cudaFree(block), "cudaFree");
}

static void timed()
{
	for (int round = 0; round < 3; round++) {
		auto began = std::chrono::steady_clock::now();
		for (int i = 0; i < 2000; i++)
			must(cudaFree(make(1000 + i % 7 * 5000)), "cudaFree");
		std::chrono::duration<double, std::micro> took =
			std::chrono::steady_clock::now() - began;
		printf("pair %.1f us\n", took.count() / 2000);
	}
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	bool clean = strncmp(name, "clean-", 6) == 0;

	name += clean ? 6 : 0;
	must(cudaSetDevice(0), "cudaSetDevice");
	for (long bytes : { 1, 16, 256 }) {
		char wanted[32];

		snprintf(wanted, sizeof(wanted), "behind-%ld", bytes);
		if (strcmp(name, wanted) == 0)
			beside(clean, BYTES, bytes);
	}
	if (strcmp(name, "before") == 0)
		beside(clean, -4, 4);
	if (strcmp(name, "after-free") == 0)
		after_free(clean);
	if (strcmp(name, "other-stream") == 0)
		other_stream(clean);
	if (strcmp(name, "busy") == 0)
		busy();
	if (strcmp(name, "captured") == 0)
		captured();
	if (strcmp(name, "time") == 0)
		timed();
	return 0;
}
