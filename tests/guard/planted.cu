// SPDX-License-Identifier: MIT
//
// Planted errors by the CUDA runtime, one for each name: planted ERROR [clean]. With "clean" the
// same program has no error. Prints the result of each call and the content of each block, never an
// address. The table of planted.py says what must be found; it names lines by markers: @victim made
// the block, @bystander a block that is not to be named, @free freed it, and @access is the access.
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 65536, ODD = 65000, PITCH = 1024, WIDTH = 1000, ROWS = 64 };

static bool clean;
static cudaStream_t streams[2];
static char *host; // 4 MiB
static char *around[3];

struct packed {
	float factor;
	char *block;
	int unused;
};

__device__ char value_at(long i)
{
	return (char)(i % 97 + 1);
}

__global__ void write_bytes(char *block, long from, long count)
{
	for (long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
		block[from + i] = value_at(from + i);
}

__global__ void write_packed(struct packed packed, long count)
{
	for (long i = threadIdx.x; i < count; i += blockDim.x)
		packed.block[i] = value_at(i);
}

__global__ void write_indirect(char **blocks, long count)
{
	for (long i = threadIdx.x; i < count; i += blockDim.x)
		blocks[1][i] = value_at(i);
}

__global__ void sum_bytes(int *sum, const char *block, long from, long count)
{
	for (long i = threadIdx.x; i < count; i += blockDim.x)
		atomicAdd(sum, block[from + i]);
}

__global__ void fetch(cudaTextureObject_t texture, char *to, long count)
{
	for (long i = threadIdx.x; i < count; i += blockDim.x)
		to[i] = tex1Dfetch<char>(texture, (int)i);
}

__device__ char variable[SIZE];

static void say(const char *what, cudaError_t result)
{
	printf("%s: %d\n", what, result);
	cudaGetLastError();
}

static long extra(long bytes)
{
	return clean ? 0 : bytes;
}

static char *victim(size_t bytes)
{
	char *block = NULL;

	say("victim", cudaMalloc(&block, bytes)); // @victim
	return block;
}

static char *bystander(size_t bytes)
{
	char *block = NULL;

	say("bystander", cudaMalloc(&block, bytes)); // @bystander
	return block;
}

static void release(char *block)
{
	say("free", cudaFree(block)); // @free
}

static void show(const char *block, size_t bytes)
{
	unsigned long sum = 0;
	cudaError_t result = cudaMemcpy(host, block, bytes, cudaMemcpyDefault);

	for (size_t i = 0; i < bytes; i++)
		sum = sum * 31 + (unsigned char)host[i];
	say("show", result);
	if (!result)
		printf("content: %lx\n", sum);
}

static void write_on(cudaStream_t stream, char *block, long from, long count)
{
	write_bytes<<<4, 64, 0, stream>>>(block, from, count); // @access
	say("write", cudaStreamSynchronize(stream));
}

static void write(char *block, long from, long count)
{
	write_on(NULL, block, from, count);
}

static void read_on(cudaStream_t stream, const char *block, long from, long count)
{
	int sum = 0;
	int *device_sum = (int *)bystander(1024);

	cudaMemset(device_sum, 0, sizeof(int));
	cudaDeviceSynchronize();
	sum_bytes<<<1, 64, 0, stream>>>(device_sum, block, from, count); // @access
	say("read", cudaStreamSynchronize(stream));
	cudaMemcpy(&sum, device_sum, sizeof(sum), cudaMemcpyDeviceToHost);
	if (clean)
		printf("sum: %d\n", sum);
	release((char *)device_sum);
}

static void over_by(long bytes, long size)
{
	char *block = victim(size);

	write(block, 0, size + extra(bytes));
	show(block, size);
	release(block);
}

static void over_1() { over_by(1, SIZE); }
static void over_16() { over_by(16, SIZE); }
static void over_256() { over_by(256, SIZE); }
static void over_4096() { over_by(4096, SIZE); }
static void slack_1() { over_by(1, ODD); }
static void small_over_1() { over_by(1, 1000); }
static void small_over_256() { over_by(256, 1024); }
static void large_over_16() { over_by(16, 3 << 20); }

static void at(long offset)
{
	char *block = victim(SIZE);

	write(block, 0, SIZE);
	write(block, clean ? 0 : offset, 1);
	show(block, SIZE);
	release(block);
}

static void gap_4096() { at(SIZE + 4095); }
static void far_behind() { at(SIZE + (64L << 20)); }
static void before_1() { at(-1); }
static void before_16() { at(-16); }
static void before_4096() { at(-4096); }

static void read_at(long size, long offset)
{
	char *block = victim(size);

	write(block, 0, size);
	read_on(NULL, block, 0, clean ? size : offset + 1);
	release(block);
}

static void read_behind_1() { read_at(SIZE, SIZE); }
static void read_behind_4096() { read_at(SIZE, SIZE + 4095); }
static void read_slack() { read_at(ODD, ODD); }

static void packed_over_16()
{
	struct packed packed = { 1.0f, victim(SIZE), 7 };

	write_packed<<<1, 64>>>(packed, SIZE + extra(16)); // @access
	say("write", cudaDeviceSynchronize());
	show(packed.block, SIZE);
	release(packed.block);
}

static void indirect_over_16()
{
	char *blocks[2] = { bystander(SIZE), victim(SIZE) };
	char **table = (char **)bystander(sizeof(blocks));

	cudaMemcpy(table, blocks, sizeof(blocks), cudaMemcpyHostToDevice);
	write_indirect<<<1, 64>>>(table, SIZE + extra(16)); // @access
	say("write", cudaDeviceSynchronize());
	show(blocks[1], SIZE);
	release(blocks[0]);
	release(blocks[1]);
	release((char *)table);
}

static void interior_over_16()
{
	char *block = victim(SIZE);

	write(block + 60000, 0, SIZE - 60000 + extra(16));
	show(block + 60000, SIZE - 60000);
	release(block);
}

// A row of a matrix goes beyond its end, into the next row.
static void inside()
{
	char *block = victim(SIZE);

	cudaMemset(block, 0, SIZE);
	write(block, PITCH, WIDTH + extra(16));
	release(block);
}

static void freed_write(cudaStream_t stream, long from, long count)
{
	char *block = victim(SIZE);

	write(block, 0, SIZE);
	if (!clean)
		release(block);
	write_on(stream, block, from, count);
	if (clean)
		release(block);
}

static void write_freed() { freed_write(NULL, 0, SIZE); }
static void write_freed_middle() { freed_write(NULL, 30000, 1); }
static void write_freed_stream() { freed_write(streams[1], 0, SIZE); }

static void freed_read(cudaStream_t stream)
{
	char *block = victim(SIZE);

	write(block, 0, SIZE);
	if (!clean)
		release(block);
	read_on(stream, block, 0, SIZE);
	if (clean)
		release(block);
}

static void read_freed() { freed_read(NULL); }
static void read_freed_stream() { freed_read(streams[1]); }

// Between the free and the access the address may be handed out again: with "clean" that block is
// the one that is accessed.
static void double_free_write()
{
	char *block = victim(SIZE);

	release(block);
	if (clean)
		block = victim(SIZE);
	else
		release(block);
	write(block, 0, SIZE);
	if (clean) {
		show(block, SIZE);
		release(block);
	}
}

static void double_free_copy()
{
	char *block = victim(SIZE);

	release(block);
	if (clean)
		block = victim(SIZE);
	else
		release(block);
	say("copy", cudaMemcpy(block, host, SIZE, cudaMemcpyHostToDevice)); // @access
	if (clean)
		release(block);
}

// The second free of a block frees the next one at its address, unless that address is kept.
static void stale_free()
{
	char *block = victim(SIZE), *next;

	release(block);
	next = bystander(SIZE); // a finding must name the block that was freed twice, not this one
	if (!clean)
		release(block);
	cudaMemset(next, 1, SIZE);
	say("sync", cudaDeviceSynchronize());
	if (clean)
		release(next);
}

static void copy_past_by(long bytes)
{
	char *block = victim(SIZE);

	say("copy", cudaMemcpy(block, host, SIZE + extra(bytes), cudaMemcpyHostToDevice)); // @access
	if (clean)
		show(block, SIZE);
	release(block);
}

static void copy_past_1() { copy_past_by(1); }
static void copy_past_4096() { copy_past_by(4096); }

static void copy_async_past()
{
	char *block = victim(SIZE);

	say("copy", cudaMemcpyAsync(block + 100, host, SIZE - 100 + extra(100), cudaMemcpyDefault, streams[0])); // @access
	say("sync", cudaStreamSynchronize(streams[0]));
	release(block);
}

static void copy_back_past()
{
	char *block = victim(SIZE);

	cudaMemset(block, 3, SIZE);
	say("copy", cudaMemcpy(host, block, SIZE + extra(16), cudaMemcpyDeviceToHost)); // @access
	release(block);
}

static void copy_device_past()
{
	char *from = victim(SIZE), *to = bystander(2 * SIZE);

	cudaMemset(from, 3, SIZE);
	say("copy", cudaMemcpy(to, from, SIZE + extra(16), cudaMemcpyDeviceToDevice)); // @access
	release(from);
	release(to);
}

static void copy_peer_past()
{
	char *from = bystander(2 * SIZE), *to = victim(SIZE);

	say("copy", cudaMemcpyPeer(to, 0, from, 0, SIZE + extra(16))); // @access
	release(from);
	release(to);
}

static void memset_past()
{
	char *block = victim(SIZE);

	say("set", cudaMemset(block, 5, SIZE + extra(16))); // @access
	show(block, SIZE);
	release(block);
}

static void memset_async_past()
{
	char *block = victim(SIZE);

	say("set", cudaMemsetAsync(block, 5, SIZE + extra(1), streams[1])); // @access
	say("sync", cudaStreamSynchronize(streams[1]));
	show(block, SIZE);
	release(block);
}

static char *freed_or_not()
{
	char *block = victim(SIZE);

	cudaMemset(block, 3, SIZE);
	cudaDeviceSynchronize();
	if (!clean)
		release(block);
	return block;
}

static void end_of(char *block)
{
	say("sync", cudaDeviceSynchronize());
	if (clean)
		release(block);
}

static void copy_from_freed()
{
	char *block = freed_or_not();

	say("copy", cudaMemcpy(host, block, SIZE, cudaMemcpyDeviceToHost)); // @access
	end_of(block);
}

static void copy_into_freed()
{
	char *block = freed_or_not();

	say("copy", cudaMemcpy(block + 4096, host, 100, cudaMemcpyHostToDevice)); // @access
	end_of(block);
}

static void copy_freed_stream()
{
	char *block = freed_or_not();

	say("copy", cudaMemcpyAsync(block, host, SIZE, cudaMemcpyHostToDevice, streams[1])); // @access
	end_of(block);
}

static void memset_freed()
{
	char *block = freed_or_not();

	say("set", cudaMemset(block, 9, SIZE)); // @access
	end_of(block);
}

// From the first of two blocks into the second. A program that takes the two for one array.
static void copy_two_blocks()
{
	char *blocks[2], *first, *second;
	long bytes;

	for (int i = 0; i < 2; i++)
		blocks[i] = victim(SIZE);
	first = blocks[blocks[0] > blocks[1]];
	second = blocks[blocks[0] < blocks[1]];
	bytes = second - first + 4096;
	if (clean || bytes > (4 << 20))
		bytes = clean ? SIZE : 4 << 20;
	say("copy", cudaMemcpy(first, host, bytes, cudaMemcpyHostToDevice)); // @access
	release(blocks[0]);
	release(blocks[1]);
}

// Rows with a gap behind each. The block ends with the last row, not with the gap behind it.
static void copy_2d_past()
{
	char *block = victim(PITCH * (ROWS - 1) + WIDTH);

	say("copy", cudaMemcpy2D(block, PITCH, host, PITCH, WIDTH + extra(8), ROWS, cudaMemcpyDefault)); // @access
	release(block);
}

static void memset_2d_past()
{
	char *block = victim(PITCH * (ROWS - 1) + WIDTH);

	say("set", cudaMemset2D(block, PITCH, 4, WIDTH, ROWS + extra(1))); // @access
	release(block);
}

static void pitched_past()
{
	char *block = NULL;
	size_t pitch;

	say("victim", cudaMallocPitch((void **)&block, &pitch, WIDTH, ROWS)); // @victim
	printf("pitch %zu\n", pitch);
	say("copy", cudaMemcpy2D(host, WIDTH, block, pitch, WIDTH, ROWS + extra(1), cudaMemcpyDeviceToHost)); // @access
	release(block);
}

static void copy_3d_past()
{
	char *block = victim(4 * PITCH * (ROWS - 1) + PITCH * (ROWS - 2) + WIDTH);
	cudaMemcpy3DParms copy = {};

	copy.srcPtr = make_cudaPitchedPtr(host, PITCH, WIDTH, ROWS);
	copy.dstPtr = make_cudaPitchedPtr(block, PITCH, WIDTH, ROWS - 1);
	copy.extent = make_cudaExtent(WIDTH, ROWS - 1, 5 + extra(1));
	copy.kind = cudaMemcpyHostToDevice;
	say("copy", cudaMemcpy3D(&copy)); // @access
	release(block);
}

static void pinned_past()
{
	char *block = NULL, *from = bystander(2 * SIZE);

	cudaMemset(from, 0, 2 * SIZE);
	say("victim", cudaMallocHost(&block, ODD)); // @victim
	say("copy", cudaMemcpy(block, from, ODD + extra(16), cudaMemcpyDeviceToHost)); // @access
	say("free", cudaFreeHost(block));
	release(from);
}

static void managed_past()
{
	char *block = NULL;

	say("victim", cudaMallocManaged(&block, ODD)); // @victim
	say("set", cudaMemset(block, 5, ODD + extra(16))); // @access
	say("sync", cudaDeviceSynchronize());
	printf("byte %d\n", block[ODD - 1]);
	release(block);
}

static void async_past()
{
	char *block = NULL;

	say("victim", cudaMallocAsync(&block, SIZE, streams[0])); // @victim
	say("set", cudaMemsetAsync(block, 5, SIZE + extra(16), streams[0])); // @access
	say("free", cudaFreeAsync(block, streams[0]));
	say("sync", cudaStreamSynchronize(streams[0]));
}

static void async_over_16()
{
	char *block = NULL;

	say("victim", cudaMallocAsync(&block, SIZE, streams[0])); // @victim
	write_on(streams[0], block, 0, SIZE + extra(16));
	say("free", cudaFreeAsync(block, streams[0]));
	say("sync", cudaStreamSynchronize(streams[0]));
}

static void async_freed_copy()
{
	char *block = NULL;

	say("victim", cudaMallocAsync(&block, SIZE, streams[0])); // @victim
	if (!clean)
		say("free", cudaFreeAsync(block, streams[0])); // @free
	say("copy", cudaMemcpyAsync(block, host, SIZE, cudaMemcpyHostToDevice, streams[0])); // @access
	if (clean)
		say("free", cudaFreeAsync(block, streams[0]));
	say("sync", cudaStreamSynchronize(streams[0]));
}

// ---- programs without an error, which a guard may take for one ----

static void trap_reuse()
{
	for (int i = 0; i < 300; i++) {
		long bytes = 1000 + i * 997;
		char *block = victim(bytes);

		write(block, 0, bytes);
		show(block, bytes);
		release(block);
	}
}

static void trap_async_reuse()
{
	for (int i = 0; i < 50; i++) {
		char *block = NULL;
		cudaStream_t stream = streams[i % 2];

		cudaMallocAsync(&block, SIZE, stream);
		write_on(stream, block, 0, SIZE);
		cudaMemcpyAsync(host, block, SIZE, cudaMemcpyDeviceToHost, stream);
		cudaFreeAsync(block, stream);
		say("sync", cudaStreamSynchronize(stream));
	}
}

static void trap_symbol()
{
	void *address;
	char *block = bystander(SIZE);

	say("to", cudaMemcpyToSymbol(variable, host, SIZE));
	say("address", cudaGetSymbolAddress(&address, variable));
	say("copy", cudaMemcpy(block, address, SIZE, cudaMemcpyDeviceToDevice));
	write((char *)address, 0, SIZE);
	show((char *)address, SIZE);
	release(block);
}

// An address of cudaMalloc needs no offset for a texture, which wants 512 bytes.
static void trap_texture()
{
	const size_t bytes = 257 * 256;
	char *block = victim(bytes), *to = bystander(bytes);
	cudaTextureObject_t texture = 0;
	cudaResourceDesc resource = {};
	cudaTextureDesc description = {};

	write(block, 0, bytes);
	resource.resType = cudaResourceTypeLinear;
	resource.res.linear.devPtr = block;
	resource.res.linear.desc = cudaCreateChannelDesc<char>();
	resource.res.linear.sizeInBytes = bytes;
	say("texture", cudaCreateTextureObject(&texture, &resource, &description, NULL));
	fetch<<<1, 64>>>(texture, to, bytes);
	say("fetch", cudaDeviceSynchronize());
	show(to, bytes);
	say("destroy", cudaDestroyTextureObject(texture));
	release(block);
	release(to);
}

static void trap_graph()
{
	char *block = victim(SIZE), *to = bystander(SIZE);
	cudaGraph_t graph;
	cudaGraphExec_t launchable;

	say("begin", cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
	cudaMemsetAsync(block, 4, SIZE, streams[0]);
	write_bytes<<<1, 64, 0, streams[0]>>>(block, 100, 1000);
	cudaMemcpyAsync(to, block, SIZE, cudaMemcpyDeviceToDevice, streams[0]);
	say("end", cudaStreamEndCapture(streams[0], &graph));
	say("make", cudaGraphInstantiate(&launchable, graph, 0));
	for (int i = 0; i < 3; i++)
		say("launch", cudaGraphLaunch(launchable, streams[0]));
	say("sync", cudaStreamSynchronize(streams[0]));
	show(to, SIZE);
	cudaGraphExecDestroy(launchable);
	cudaGraphDestroy(graph);
	release(block);
	release(to);
}

static void *work(void *results)
{
	char mine[1000];
	unsigned long *sum = (unsigned long *)results;

	for (int i = 0; i < 40; i++) {
		char *block;
		long bytes = 1000 * (i % 7 + 1);

		if (cudaMalloc(&block, bytes))
			*sum += 1000000;
		write_bytes<<<1, 64, 0, cudaStreamPerThread>>>(block, 0, bytes);
		cudaMemcpyAsync(mine, block, sizeof(mine), cudaMemcpyDeviceToHost, cudaStreamPerThread);
		cudaStreamSynchronize(cudaStreamPerThread);
		*sum += (unsigned long)mine[i] + cudaFree(block);
	}
	return NULL;
}

static void trap_threads()
{
	pthread_t threads[4];
	unsigned long sums[4] = {};

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, &sums[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 4; i++)
		printf("thread: %lu\n", sums[i]);
}

// Managed memory is used by the CPU, pinned memory by a kernel, registered memory by copies.
static void trap_host_memory()
{
	char *managed = NULL, *pinned = NULL, *mapped = NULL, *block = bystander(SIZE);

	say("managed", cudaMallocManaged(&managed, ODD));
	say("pinned", cudaHostAlloc(&pinned, ODD, cudaHostAllocMapped));
	say("mapped", cudaHostGetDevicePointer((void **)&mapped, pinned, 0));
	say("register", cudaHostRegister(host, 1 << 20, cudaHostRegisterDefault));
	write(managed, 0, ODD);
	write(mapped, 0, ODD);
	printf("%d %d\n", managed[ODD - 1], pinned[ODD - 1]);
	managed[5] = 7;
	say("copy", cudaMemcpy(block, managed, ODD, cudaMemcpyDefault));
	say("copy", cudaMemcpy(host, block, ODD, cudaMemcpyDefault));
	say("copy", cudaMemcpy(host + (1 << 20), block, ODD, cudaMemcpyDefault)); // not registered
	say("unregister", cudaHostUnregister(host));
	cudaFreeHost(pinned);
	release(managed);
	release(block);
}

static void begin()
{
	release(bystander(SIZE));
	for (int i = 0; i < 3; i++)
		around[i] = bystander(SIZE << i);
	for (int i = 0; i < 2; i++)
		cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking);
}

static void end()
{
	for (int i = 0; i < 2; i++)
		cudaStreamDestroy(streams[i]);
	for (int i = 0; i < 3; i++)
		release(around[i]);
}

static void trap_reset()
{
	char *block = victim(SIZE);

	write(block, 0, SIZE);
	release(block);
	end();
	say("reset", cudaDeviceReset());
	begin();
	block = victim(SIZE);
	write(block, 0, SIZE);
	show(block, SIZE);
	release(block);
}

#define PROGRAM(name) { #name, name }
static const struct program {
	const char *name;
	void (*run)();
} programs[] = {
	PROGRAM(over_1), PROGRAM(over_16), PROGRAM(over_256), PROGRAM(over_4096), PROGRAM(slack_1),
	PROGRAM(small_over_1), PROGRAM(small_over_256), PROGRAM(large_over_16), PROGRAM(gap_4096),
	PROGRAM(far_behind), PROGRAM(before_1), PROGRAM(before_16), PROGRAM(before_4096),
	PROGRAM(read_behind_1), PROGRAM(read_behind_4096), PROGRAM(read_slack),
	PROGRAM(packed_over_16), PROGRAM(indirect_over_16), PROGRAM(interior_over_16),
	PROGRAM(inside), PROGRAM(write_freed), PROGRAM(write_freed_middle),
	PROGRAM(write_freed_stream), PROGRAM(read_freed), PROGRAM(read_freed_stream),
	PROGRAM(double_free_write), PROGRAM(double_free_copy), PROGRAM(stale_free),
	PROGRAM(copy_past_1), PROGRAM(copy_past_4096), PROGRAM(copy_async_past),
	PROGRAM(copy_back_past), PROGRAM(copy_device_past), PROGRAM(copy_peer_past),
	PROGRAM(memset_past), PROGRAM(memset_async_past), PROGRAM(copy_from_freed),
	PROGRAM(copy_into_freed), PROGRAM(copy_freed_stream), PROGRAM(memset_freed),
	PROGRAM(copy_two_blocks), PROGRAM(copy_2d_past), PROGRAM(memset_2d_past),
	PROGRAM(pitched_past), PROGRAM(copy_3d_past), PROGRAM(pinned_past), PROGRAM(managed_past),
	PROGRAM(async_past), PROGRAM(async_over_16), PROGRAM(async_freed_copy),
	PROGRAM(trap_reuse), PROGRAM(trap_async_reuse), PROGRAM(trap_symbol), PROGRAM(trap_texture),
	PROGRAM(trap_graph), PROGRAM(trap_threads), PROGRAM(trap_host_memory), PROGRAM(trap_reset),
};

int main(int argc, char **argv)
{
	clean = argc > 2 && strcmp(argv[2], "clean") == 0;
	host = (char *)calloc(4, 1 << 20);
	begin();
	for (const program &program : programs)
		if (argc > 1 && strcmp(argv[1], program.name) == 0)
			program.run();
	end();
	free(host);
	return 0;
}
