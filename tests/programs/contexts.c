/* SPDX-License-Identifier: MIT
 *
 * What ends with a context and what does not, in each family; attached and green contexts;
 * frees that come after the context has gone, and frees while a dead one is current.
 */
#include <string.h>
#include <unistd.h>

#include "cu_graph.h"

struct external {
	int type, pad, fd, pad2;
	void *more;
	unsigned long long size;
	unsigned int flags, reserved[16];
};
struct mapping {
	unsigned long long offset, size;
	unsigned int flags, reserved[16];
};
struct mipmaps {
	unsigned long long offset;
	struct array3d_descriptor array;
	unsigned int levels, reserved[16];
};
struct ipc {
	char bytes[64];
};
CUresult cuIpcGetMemHandle(struct ipc *handle, CUdeviceptr address);
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, struct ipc handle, unsigned int flags);
CUresult cuIpcCloseMemHandle(CUdeviceptr address);
CUresult cuImportExternalMemory(void **external, const struct external *description);
CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *address, void *external,
					 const struct mapping *description);
CUresult cuExternalMemoryGetMappedMipmappedArray(void **array, void *external,
						 const struct mipmaps *description);
CUresult cuDestroyExternalMemory(void *external);

static CUdeviceptr linear, pitched, managed, opened, buffer;
static void *pinned, *array, *mipmapped, *external, *mapped;
static char lent[8192] __attribute__((aligned(4096)));

/* Another process's, as far as the driver can tell. */
static struct ipc handle_of(CUdeviceptr address)
{
	struct ipc handle;
	int own = getpid(), other = 1;

	must(cuIpcGetMemHandle(&handle, address), "handle");
	for (size_t i = 0; i + sizeof(own) <= sizeof(handle); i += sizeof(own))
		if (memcmp(handle.bytes + i, &own, sizeof(own)) == 0)
			memcpy(handle.bytes + i, &other, sizeof(other));
	return handle;
}

static void share(void)
{
	struct external description = { .type = 1, .size = 65536 };
	struct mapping part = { .size = 4096 };
	struct mipmaps levels = { .array = { 16, 16, 0, CU_AD_FORMAT_FLOAT, 1, 0 }, .levels = 1 };

	must(cuIpcOpenMemHandle_v2(&opened, handle_of(linear), 1), "open"); /* @opened */
	must(cuImportExternalMemory(&external, &description), "import"); /* @imported */
	must(cuExternalMemoryGetMappedBuffer(&buffer, external, &part), "map"); /* @mapped */
	must(cuExternalMemoryGetMappedMipmappedArray( /* @levels */
		     &mapped, external, &levels), "map");
}

/* One of each family that ends with its context. */
static void make(void)
{
	struct array_descriptor flat = { 100, 10, CU_AD_FORMAT_FLOAT, 1 };
	struct array3d_descriptor deep = { 16, 16, 0, CU_AD_FORMAT_FLOAT, 1, 0 };
	size_t pitch;

	must(cuMemAlloc_v2(&linear, 1000), "linear"); /* @linear */
	must(cuMemAllocPitch_v2(&pitched, &pitch, 512, 4, 4), "pitched"); /* @pitched */
	must(cuMemAllocManaged(&managed, 3000, 1), "managed"); /* @managed */
	must(cuMemHostAlloc(&pinned, 4000, 0), "pinned"); /* @pinned */
	must(cuMemHostRegister_v2(lent, 4096, 0), "register"); /* @registered */
	must(cuArrayCreate_v2(&array, &flat), "array"); /* @array */
	must(cuMipmappedArrayCreate(&mipmapped, &deep, 1), "mipmapped"); /* @mipmapped */
	share(); /* @share */
}

/* One of each that does not. */
static void make_lasting(void)
{
	int properties[22] = { 1, 0, 1, 0 };
	CUdeviceptr address;
	void *pool, *stream, *graph;
	CUgraphExec exec;

	must(cuMemAllocAsync(&address, 5001, NULL), "async"); /* @async */
	must(cuMemPoolCreate(&pool, properties), "pool"); /* @pool */
	must(cuMemAllocFromPoolAsync(&address, 5002, pool, NULL), "from pool"); /* @from_pool */
	must(cuStreamCreate(&stream, 1), "stream");
	must(cuStreamBeginCapture_v2(stream, 0), "begin");
	must(cuMemAllocAsync(&address, 5003, stream), "captured"); /* @captured */
	must(cuStreamEndCapture(stream, &graph), "end");
	must(cuGraphInstantiateWithFlags(&exec, graph, 0), "instantiate");
	must(cuGraphLaunch(exec, stream), "launch");
}

static void free_late(void)
{
	printf("%d ", cuMemFree_v2(linear)); /* @free_linear */
	printf("%d ", cuMemFreeAsync(pitched, NULL)); /* @free_pitched */
	printf("%d ", cuMemFree_v2(managed)); /* @free_managed */
	printf("%d ", cuMemFreeHost(pinned)); /* @free_pinned */
	printf("%d ", cuMemHostUnregister(lent)); /* @unregister */
	printf("%d ", cuArrayDestroy(array)); /* @free_array */
	printf("%d ", cuMipmappedArrayDestroy(mipmapped)); /* @free_mipmapped */
	printf("%d ", cuIpcCloseMemHandle(opened)); /* @close */
	printf("%d ", cuMemFree_v2(buffer)); /* @free_buffer */
	printf("%d ", cuMipmappedArrayDestroy(mapped)); /* @free_levels */
	printf("%d\n", cuDestroyExternalMemory(external)); /* @free_external */
}

static CUcontext primary(void)
{
	CUcontext context;

	must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
	return context;
}

static CUcontext create(void)
{
	CUcontext context;

	must(cuCtxCreate_v2(&context, 0, 0), "create");
	return context;
}

static void destroyed(int late)
{
	CUcontext context = create();

	make(); /* @made */
	make_lasting(); /* @lasting */
	must(cuCtxDestroy_v2(context), "destroy"); /* @destroy */
	must(cuCtxSetCurrent(primary()), "set current");
	if (late)
		free_late(); /* @late */
}

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @allocate */
	return address;
}

static void attached(void)
{
	CUcontext context = create(), same, other;
	CUdeviceptr address;

	address = allocate(6001); /* @attached */
	must(cuCtxAttach(&same, 0), "attach");
	must(cuCtxAttach(&same, 0), "attach");
	must(cuCtxDetach(context), "detach");
	must(cuCtxDetach(context), "detach");
	printf("used twice: %d\n", cuMemFree_v2(address));
	address = allocate(6002); /* @detached */
	must(cuCtxDetach(context), "detach"); /* @detach */
	must(cuCtxSetCurrent(primary()), "set current");
	printf("used no more: %d\n", cuMemFree_v2(address)); /* @free_detached */
	other = create();
	must(cuCtxAttach(&same, 0), "attach");
	allocate(6003); /* @other */
	must(cuCtxDestroy_v2(other), "destroy"); /* @destroy_other */
	printf("no out-parameter: %d\n", cuCtxAttach(NULL, 0));
	printf("no context: %d\n", cuCtxDetach(NULL));
}

static CUgreenCtx green_context(CUcontext *context)
{
	char resource[512] = { 0 };
	void *description;
	CUgreenCtx green;

	must(cuDeviceGetDevResource(0, resource, 1), "resource");
	must(cuDevResourceGenerateDesc(&description, resource, 1), "description");
	must(cuGreenCtxCreate(&green, description, 0, 1), "create");
	must(cuCtxFromGreenCtx(context, green), "convert");
	must(cuCtxSetCurrent(*context), "set current");
	return green;
}

/* Its memory is the primary context's: there after it, gone with a reset. */
static void green(void)
{
	CUcontext context, main_context = primary();
	CUgreenCtx green = green_context(&context);
	CUdeviceptr address = allocate(7001); /* @green */

	allocate(7002); /* @lost */
	printf("reset: %d\n", cuDevicePrimaryCtxReset_v2(0));
	must(cuGreenCtxDestroy(green), "destroy");
	printf("current: %d\n", cuMemFree_v2(address)); /* @in_dead */
	must(cuCtxSetCurrent(main_context), "set current");
	printf("primary: %d\n", cuMemFree_v2(address));
	must(cuDevicePrimaryCtxReset_v2(0), "reset"); /* @reset */
	must(cuCtxSetCurrent(primary()), "set current");
	allocate(7003); /* @after */
	printf("no out-parameter: %d %d\n", cuGreenCtxCreate(NULL, NULL, 0, 1),
	       cuCtxFromGreenCtx(NULL, NULL));
}

/* A green context holds the primary one: it may be the last that does. */
static void last_hold(void)
{
	CUcontext context;
	CUgreenCtx green = green_context(&context);

	allocate(7101); /* @first_held */
	must(cuDevicePrimaryCtxRelease_v2(0), "release"); /* begin()'s */
	allocate(7102); /* @second_held */
	must(cuGreenCtxDestroy(green), "destroy"); /* @last */
}

/* While a dead context is current the driver looks at no block. */
static void dead(void)
{
	CUcontext other = create();
	CUdeviceptr there = allocate(8001), gone; /* @there */

	must(cuCtxSetCurrent(primary()), "set current");
	gone = allocate(8002); /* @gone */
	must(cuDevicePrimaryCtxReset_v2(0), "reset"); /* @dead_reset */
	printf("there: %d\n", cuMemFree_v2(there)); /* @in_reset */
	printf("gone: %d\n", cuMemFree_v2(gone)); /* @free_gone */
	printf("foreign: %d\n", cuMemFree_v2(there + 64));
	must(cuCtxSetCurrent(other), "set current");
	printf("there: %d\n", cuMemFree_v2(there));
}

static CUdeviceptr until_exit, async_until_exit;

static void free_at_exit(void)
{
	CUresult r = cuMemFree_v2(until_exit); /* @late_linear */

	printf("late: %d %d\n", r, cuMemFreeAsync(async_until_exit, NULL)); /* @late_async */
}

static void release_at_exit(void)
{
	cuDevicePrimaryCtxRelease_v2(0);
}

/* As a runtime does, in front of destructors that free. */
static void at_exit(void)
{
	atexit(free_at_exit);
	atexit(release_at_exit);
	until_exit = allocate(9001); /* @until_exit */
	must(cuMemAllocAsync(&async_until_exit, 9002, NULL), "async"); /* @async_until_exit */
}

int main(int argc, char **argv)
{
	const char *story = argc > 1 ? argv[1] : "";

	begin();
	if (strcmp(story, "destroyed") == 0)
		destroyed(0); /* @main_destroyed */
	else if (strcmp(story, "late") == 0)
		destroyed(1); /* @main_late */
	else if (strcmp(story, "attached") == 0)
		attached(); /* @main_attached */
	else if (strcmp(story, "green") == 0)
		green(); /* @main_green */
	else if (strcmp(story, "last-hold") == 0)
		last_hold(); /* @main_last_hold */
	else if (strcmp(story, "at-exit") == 0)
		at_exit(); /* @main_at_exit */
	else
		dead(); /* @main_dead */
	return 0;
}
