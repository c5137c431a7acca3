/* SPDX-License-Identifier: MIT
 *
 * Compiled with NVIDIA's headers, of CUDA 12 and 13: what the stand-in writes into the structures
 * of these headers, and nothing behind their ends. Prints one line for each wrong value.
 */
#include <stdio.h>
#include <string.h>

#include <cuda_runtime_api.h>

static int wrong;

#define CHECK(what)                                                          \
	do {                                                                 \
		if (!(what)) {                                               \
			printf("wrong at line %d: %s\n", __LINE__, #what);   \
			wrong++;                                             \
		}                                                            \
	} while (0)
#define MUST(call) CHECK((call) == cudaSuccess)

/* A structure with bytes behind it that must stay. */
#define GUARDED(type) \
	struct {      \
		type it;                      \
		unsigned char behind[64];     \
	}
#define GUARD(guarded) memset(&(guarded), 0xa5, sizeof(guarded))
#define INTACT(guarded) (memcmp((guarded).behind, intact, sizeof(intact)) == 0)
static unsigned char intact[64];

static void properties(void)
{
	GUARDED(struct cudaDeviceProp) p;

	GUARD(p);
	MUST(cudaGetDeviceProperties(&p.it, 0));
	CHECK(INTACT(p));
	CHECK(strcmp(p.it.name, "Stand-in GPU 0") == 0);
	CHECK(p.it.totalGlobalMem == (size_t)16 << 30);
	CHECK(p.it.major == 9 && p.it.minor == 0 && p.it.warpSize == 32);
	CHECK(p.it.multiProcessorCount == 132 && p.it.maxThreadsPerBlock == 1024);
	CHECK(p.it.maxThreadsDim[0] == 1024 && p.it.maxThreadsDim[2] == 64);
	CHECK(p.it.maxGridSize[0] == 2147483647 && p.it.maxGridSize[1] == 65535);
	CHECK(p.it.sharedMemPerBlock == 48 << 10 && p.it.totalConstMem == 65536);
	CHECK(p.it.unifiedAddressing == 1 && p.it.managedMemory == 1);
	CHECK(p.it.concurrentManagedAccess == 1 && p.it.memoryPoolsSupported == 1);
	CHECK(p.it.maxThreadsPerMultiProcessor == 2048 && p.it.regsPerMultiprocessor == 65536);
	CHECK(p.it.reserved[0] == 0 &&
	      p.it.reserved[sizeof(p.it.reserved) / sizeof(p.it.reserved[0]) - 1] == 0);
	CHECK(cudaGetDeviceProperties(&p.it, 1) == cudaErrorInvalidDevice);
}

static void pointers(void)
{
	GUARDED(struct cudaPointerAttributes) p;
	void *managed;

	MUST(cudaMallocManaged(&managed, 100, cudaMemAttachGlobal));
	GUARD(p);
	MUST(cudaPointerGetAttributes(&p.it, managed));
	CHECK(INTACT(p));
	CHECK(p.it.type == cudaMemoryTypeManaged && p.it.device == 0 &&
	      p.it.devicePointer == managed && p.it.hostPointer == managed);
	MUST(cudaPointerGetAttributes(&p.it, &p));
	CHECK(p.it.type == cudaMemoryTypeUnregistered);
#if CUDART_VERSION >= 13000
	struct cudaMemLocation here = { .type = cudaMemLocationTypeDevice, .id = 0 };

	MUST(cudaMemAdvise(managed, 100, cudaMemAdviseSetReadMostly, here));
	MUST(cudaMemPrefetchAsync(managed, 100, here, 0, 0));
#else
	MUST(cudaMemAdvise(managed, 100, cudaMemAdviseSetReadMostly, 0));
	MUST(cudaMemPrefetchAsync(managed, 100, 0, 0));
#endif
	MUST(cudaFree(managed));
}

static void arrays(void)
{
	struct cudaChannelFormatDesc quads = cudaCreateChannelDesc(8, 8, 8, 8,
								   cudaChannelFormatKindUnsigned);
	struct cudaExtent extent = { .width = 5, .height = 4, .depth = 3 };
	GUARDED(struct cudaChannelFormatDesc) d;
	GUARDED(struct cudaExtent) e;
	unsigned int flags = 77;
	cudaArray_t array;

	GUARD(d);
	GUARD(e);
	MUST(cudaMalloc3DArray(&array, &quads, extent, 0));
	MUST(cudaArrayGetInfo(&d.it, &e.it, &flags, array));
	CHECK(INTACT(d) && INTACT(e) && flags == 0);
	CHECK(memcmp(&d.it, &quads, sizeof(quads)) == 0);
	CHECK(memcmp(&e.it, &extent, sizeof(extent)) == 0);
	MUST(cudaFreeArray(array));
}

static void pools_and_graphs(void)
{
	struct cudaMemAllocNodeParams node = { .bytesize = 4096 };
	struct cudaMemPoolProps props = { .allocType = cudaMemAllocationTypePinned };
	unsigned long long threshold = 12345, back = 0;
	cudaGraphExec_t exec;
	cudaMemPool_t pool;
	cudaGraphNode_t made;
	cudaGraph_t graph;
	void *p;

	props.location.type = cudaMemLocationTypeDevice;
	MUST(cudaMemPoolCreate(&pool, &props));
	MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
	MUST(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &back));
	CHECK(back == threshold);
	MUST(cudaMallocFromPoolAsync(&p, 100, pool, 0));
	MUST(cudaFreeAsync(p, 0));
	MUST(cudaStreamSynchronize(0));
	MUST(cudaMemPoolDestroy(pool));

	node.poolProps = props;
	MUST(cudaGraphCreate(&graph, 0));
	MUST(cudaGraphAddMemAllocNode(&made, graph, NULL, 0, &node));
	CHECK(node.dptr);
	MUST(cudaGraphInstantiate(&exec, graph, 0));
	MUST(cudaGraphLaunch(exec, 0));
	MUST(cudaFree(node.dptr));
	MUST(cudaGraphExecDestroy(exec));
	MUST(cudaGraphDestroy(graph));
}

static void copies(void)
{
	struct cudaMemcpy3DParms p = { 0 };
	struct cudaPitchedPtr box;
	char from[24], to[24] = "";

	for (int i = 0; i < 24; i++)
		from[i] = (char)(i + 1);
	MUST(cudaMalloc3D(&box, (struct cudaExtent){ 4, 3, 2 }));
	p.srcPtr = (struct cudaPitchedPtr){ from, 4, 4, 3 };
	p.dstPtr = box;
	p.extent = (struct cudaExtent){ 4, 3, 2 };
	p.kind = cudaMemcpyHostToDevice;
	MUST(cudaMemcpy3D(&p));
	p.srcPtr = box;
	p.srcPos = (struct cudaPos){ 1, 1, 1 };
	p.dstPtr = (struct cudaPitchedPtr){ to, 4, 4, 3 };
	p.dstPos = (struct cudaPos){ 1, 1, 1 };
	p.extent = (struct cudaExtent){ 3, 2, 1 };
	p.kind = cudaMemcpyDeviceToHost;
	MUST(cudaMemcpy3D(&p));
	CHECK(to[16] == 0 && to[17] == from[17] && to[19] == from[19] && to[20] == 0 &&
	      to[23] == from[23] && to[5] == 0);
	MUST(cudaFree(box.ptr));
}

int main(void)
{
	int version = 0;

	memset(intact, 0xa5, sizeof(intact));
	MUST(cudaRuntimeGetVersion(&version));
	CHECK(version / 1000 == CUDART_VERSION / 1000);
	properties();
	pointers();
	arrays();
	pools_and_graphs();
	copies();
	printf("%d wrong\n", wrong);
	return wrong != 0;
}
