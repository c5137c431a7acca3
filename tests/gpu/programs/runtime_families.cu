/* SPDX-License-Identifier: MIT
 *
 * Each family of memory through the runtime API: leaked, freed, freed twice; graphs; a device
 * that is reset and used again. Sizes are all distinct. Says what a report must say.
 *
 * runtime_families leaked|freed|twice|array-twice|graphs|reset
 */
#include <cstring>

#include "expect.h"

/* A family: how a block is made and given back, and what a report calls it. */
struct block {
	void *address;
	size_t bytes;
	cudaArray_t array;
	cudaMipmappedArray_t mipmapped;
	cudaMemPool_t pool;
};

struct family {
	const char *name; /* of the function that makes it */
	const char *kind;
	const char *apis;
	const char *free_apis;
	void (*make)(block *);
	cudaError_t (*drop)(block *);
	bool survives_twice; /* the driver does, of a second time */
};

static cudaMemPool_t own_pool;
static char lent[12288] __attribute__((aligned(4096)));

static cudaMemPoolProps pool_properties(void)
{
	cudaMemPoolProps ret;

	memset(&ret, 0, sizeof(ret));
	ret.allocType = cudaMemAllocationTypePinned;
	ret.location.type = cudaMemLocationTypeDevice;
	return ret;
}

static NOINLINE void make_linear(block *b)
{
	b->bytes = 1000001;
	MUST(cudaMalloc(&b->address, b->bytes));
}

static NOINLINE void make_pitched(block *b)
{
	size_t pitch;

	MUST(cudaMallocPitch(&b->address, &pitch, 1000, 37));
	b->bytes = pitch * 37;
}

static NOINLINE void make_3d(block *b)
{
	cudaPitchedPtr made;

	MUST(cudaMalloc3D(&made, make_cudaExtent(1000, 13, 5)));
	b->address = made.ptr;
	b->bytes = made.pitch * 13 * 5;
}

static NOINLINE void make_managed(block *b)
{
	b->bytes = 1000002;
	MUST(cudaMallocManaged(&b->address, b->bytes));
}

static NOINLINE void make_host(block *b)
{
	b->bytes = 1000003;
	MUST(cudaMallocHost(&b->address, b->bytes));
}

static NOINLINE void make_host_alloc(block *b)
{
	b->bytes = 1000004;
	MUST(cudaHostAlloc(&b->address, b->bytes, cudaHostAllocPortable));
}

static NOINLINE void make_registered(block *b)
{
	b->address = lent;
	b->bytes = sizeof(lent);
	MUST(cudaHostRegister(lent, sizeof(lent), cudaHostRegisterDefault));
}

static NOINLINE void make_async(block *b)
{
	b->bytes = 1000005;
	MUST(cudaMallocAsync(&b->address, b->bytes, cudaStream_t(0)));
}

static NOINLINE void make_from_pool(block *b)
{
	b->bytes = 1000006;
	MUST(cudaMallocFromPoolAsync(&b->address, b->bytes, own_pool, cudaStream_t(0)));
}

static NOINLINE void make_pool(block *b)
{
	cudaMemPoolProps properties = pool_properties();

	b->bytes = 0;
	MUST(cudaMemPoolCreate(&b->pool, &properties));
}

static NOINLINE void make_array(block *b)
{
	cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();

	MUST(cudaMallocArray(&b->array, &floats, 101, 11));
	b->bytes = 4 * 101 * 11;
}

static NOINLINE void make_3d_array(block *b)
{
	cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();

	MUST(cudaMalloc3DArray(&b->array, &floats, make_cudaExtent(103, 11, 3)));
	b->bytes = 4 * 103 * 11 * 3;
}

static NOINLINE void make_mipmapped(block *b)
{
	cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();

	MUST(cudaMallocMipmappedArray(&b->mipmapped, &floats, make_cudaExtent(64, 32, 0), 3));
	b->bytes = 4 * (64 * 32 + 32 * 16 + 16 * 8);
}

static NOINLINE cudaError_t drop_device(block *b)
{
	return cudaFree(b->address);
}

static NOINLINE cudaError_t drop_host(block *b)
{
	return cudaFreeHost(b->address);
}

static NOINLINE cudaError_t drop_registered(block *b)
{
	return cudaHostUnregister(b->address);
}

static NOINLINE cudaError_t drop_async(block *b)
{
	return cudaFreeAsync(b->address, cudaStream_t(0));
}

static NOINLINE cudaError_t drop_pool(block *b)
{
	return cudaMemPoolDestroy(b->pool);
}

static NOINLINE cudaError_t drop_array(block *b)
{
	return cudaFreeArray(b->array);
}

static NOINLINE cudaError_t drop_mipmapped(block *b)
{
	return cudaFreeMipmappedArray(b->mipmapped);
}

#define ASYNC_FREES "cuMemFreeAsync cuMemFreeAsync_ptsz"

static const family families[] = {
	{ "make_linear", "device", "cuMemAlloc_v2", "cuMemFree_v2", make_linear, drop_device,
	  true },
	{ "make_pitched", "device", "cuMemAllocPitch_v2", "cuMemFree_v2", make_pitched,
	  drop_device, true },
	{ "make_3d", "device", "cuMemAllocPitch_v2 cuMemAlloc_v2", "cuMemFree_v2", make_3d,
	  drop_device, true },
	{ "make_managed", "managed", "cuMemAllocManaged", "cuMemFree_v2", make_managed, drop_device,
	  true },
	{ "make_host", "pinned", "cuMemHostAlloc cuMemAllocHost_v2", "cuMemFreeHost", make_host,
	  drop_host, true },
	{ "make_host_alloc", "pinned", "cuMemHostAlloc", "cuMemFreeHost", make_host_alloc,
	  drop_host, true },
	{ "make_registered", "registered", "cuMemHostRegister_v2", "cuMemHostUnregister",
	  make_registered, drop_registered, true },
	{ "make_async", "stream-ordered", "cuMemAllocAsync cuMemAllocAsync_ptsz", ASYNC_FREES,
	  make_async, drop_async, true },
	{ "make_from_pool", "stream-ordered",
	  "cuMemAllocFromPoolAsync cuMemAllocFromPoolAsync_ptsz", ASYNC_FREES, make_from_pool,
	  drop_async, true },
	{ "make_pool", "mempool", "cuMemPoolCreate", "cuMemPoolDestroy", make_pool, drop_pool,
	  false },
	{ "make_array", "array", "cuArrayCreate_v2 cuArray3DCreate_v2", "cuArrayDestroy",
	  make_array, drop_array, false },
	{ "make_3d_array", "array", "cuArray3DCreate_v2", "cuArrayDestroy", make_3d_array,
	  drop_array, false },
	{ "make_mipmapped", "array", "cuMipmappedArrayCreate", "cuMipmappedArrayDestroy",
	  make_mipmapped, drop_mipmapped, false },
};

/* Lives to the end: what is made from it needs it. */
static NOINLINE void make_own_pool(void)
{
	block b;

	make_pool(&b);
	own_pool = b.pool;
	expect_made(0);
	expect_leak("make_own_pool", "mempool", "cuMemPoolCreate", 0);
}

static NOINLINE void leaked(void)
{
	for (const family &f : families) {
		block b = {};

		f.make(&b);
		expect_made(b.bytes);
		expect_leak(f.name, f.kind, f.apis, b.bytes);
	}
}

static NOINLINE void freed(void)
{
	for (const family &f : families) {
		block b = {};

		f.make(&b);
		expect_made(b.bytes);
		MUST(f.drop(&b));
		expect_freed();
	}
}

/* A runtime may refuse a second free by itself, before any driver call: then there is none. */
static NOINLINE void twice(void)
{
	for (const family &f : families) {
		block b = {};

		if (!f.survives_twice)
			continue;
		f.make(&b);
		expect_made(b.bytes);
		MUST(f.drop(&b));
		MUST(cudaDeviceSynchronize());
		expect_freed();
		if (f.drop(&b) == cudaSuccess)
			fprintf(stderr, "%s: freed twice, and no error\n", f.name);
		cudaGetLastError();
		expect_error("twice", "double-free", f.free_apis, b.bytes);
	}
}

/* The driver dies of it: what must be reported is said before. */
static NOINLINE void array_twice(void)
{
	block b = {};

	make_array(&b);
	expect_made(b.bytes);
	MUST(drop_array(&b));
	expect_freed();
	expect_error("array_twice", "double-free", "cuArrayDestroy", b.bytes);
	expect_print();
	drop_array(&b);
}

/* ---- graphs: their memory is live from a launch on ---- */

static cudaGraphExec_t launched(cudaGraph_t graph, cudaStream_t stream, unsigned int flags)
{
	cudaGraphExec_t exec;

	MUST(cudaGraphInstantiate(&exec, graph, flags));
	MUST(cudaGraphLaunch(exec, stream));
	MUST(cudaStreamSynchronize(stream));
	return exec;
}

static NOINLINE void *capture(cudaStream_t stream, size_t bytes, bool freed, cudaGraph_t *graph)
{
	void *address;

	MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	MUST(cudaMallocAsync(&address, bytes, stream));
	if (freed)
		MUST(cudaFreeAsync(address, stream));
	MUST(cudaStreamEndCapture(stream, graph));
	return address;
}

static NOINLINE void *add_node(size_t bytes, cudaGraph_t *graph)
{
	cudaMemAllocNodeParams params = {};
	cudaGraphNode_t node;

	MUST(cudaGraphCreate(graph, 0));
	params.poolProps = pool_properties();
	params.bytesize = bytes;
	MUST(cudaGraphAddMemAllocNode(&node, *graph, nullptr, 0, &params));
	return params.dptr;
}

#define CAPTURED "cuMemAllocAsync cuMemAllocAsync_ptsz"
#define NODE "cuGraphAddMemAllocNode cuGraphAddNode cuGraphAddNode_v2"

static NOINLINE void graphs(void)
{
	cudaGraph_t graph;
	cudaStream_t stream;
	cudaGraphExec_t exec;
	void *address;

	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	capture(stream, 2000001, false, &graph); /* never launched: nothing */
	capture(stream, 2000002, false, &graph);
	launched(graph, stream, 0);
	expect_made(2000002);
	expect_leak("capture", "graph", CAPTURED, 2000002);
	capture(stream, 2000003, true, &graph); /* freed inside: the graph's own affair */
	exec = launched(graph, stream, 0);
	MUST(cudaGraphLaunch(exec, stream));
	add_node(2000004, &graph);
	launched(graph, stream, 0);
	expect_made(2000004);
	expect_leak("add_node", "graph", NODE, 2000004);
	address = add_node(2000005, &graph); /* freed by hand */
	launched(graph, stream, 0);
	MUST(cudaFree(address));
	expect_made(2000005), expect_freed();
	address = add_node(2000006, &graph); /* freed in a stream, and launched again */
	exec = launched(graph, stream, 0);
	MUST(cudaFreeAsync(address, stream));
	MUST(cudaGraphLaunch(exec, stream));
	expect_made(2000006), expect_freed(), expect_made(2000006);
	expect_leak("add_node", "graph", NODE, 2000006);
	add_node(2000007, &graph); /* eight launches, each frees what the one before left */
	exec = launched(graph, stream, cudaGraphInstantiateFlagAutoFreeOnLaunch);
	for (int i = 1; i < 8; i++) {
		MUST(cudaGraphLaunch(exec, stream));
		expect_made(2000007), expect_freed();
	}
	expect_made(2000007);
	expect_leak("add_node", "graph", NODE, 2000007);
	MUST(cudaStreamSynchronize(stream));
}

/* A reset ends what the context has; pools, and what is in them, are the device's. */
static NOINLINE void reset(void)
{
	block kept = {}, b;

	make_async(&kept);
	MUST(cudaStreamSynchronize(cudaStream_t(0)));
	expect_made(kept.bytes);
	make_linear(&b);
	expect_made(b.bytes), expect_ended_with_context(b.bytes);
	make_managed(&b);
	expect_made(b.bytes), expect_ended_with_context(b.bytes);
	make_host(&b);
	expect_made(b.bytes), expect_ended_with_context(b.bytes);
	make_array(&b);
	expect_made(b.bytes), expect_ended_with_context(b.bytes);
	MUST(cudaDeviceReset());
	make_linear(&b); /* the same primary context again */
	expect_made(b.bytes);
	expect_leak("make_linear", "device", "cuMemAlloc_v2", b.bytes);
	make_pitched(&b);
	expect_made(b.bytes);
	MUST(cudaFree(b.address));
	expect_freed();
	expect_leak("make_async", "stream-ordered", "cuMemAllocAsync cuMemAllocAsync_ptsz",
		    kept.bytes);
}

int main(int argc, char **argv)
{
	const char *fate = argc > 1 ? argv[1] : "";

	MUST(cudaSetDevice(0));
	if (strcmp(fate, "array-twice") == 0) {
		array_twice();
		return 0;
	}
	if (strcmp(fate, "graphs") == 0)
		graphs();
	else if (strcmp(fate, "reset") == 0)
		reset();
	else
		make_own_pool();
	if (strcmp(fate, "leaked") == 0)
		leaked();
	else if (strcmp(fate, "freed") == 0)
		freed();
	else if (strcmp(fate, "twice") == 0)
		twice();
	expect_print();
	return 0;
}
