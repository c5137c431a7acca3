/* SPDX-License-Identifier: MIT
 *
 * Memory that is not linear device memory: each family leaked once and freed once, freed
 * twice, freed by another family's call, and freed by an address inside it.
 */
#include <stdint.h>
#include <string.h>

#include "cu.h"

static char lent[3][4096];

static void stream_ordered(void)
{
	CUdeviceptr address;

	must(cuMemAllocAsync(&address, 10001, NULL), "async"); /* @async */
	must(cuMemAllocAsync(&address, 10002, NULL), "async");
	must(cuMemFreeAsync(address, NULL), "free async");
	must(cuMemAllocAsync_ptsz(&address, 10003, NULL), "async"); /* @async_ptsz */
	must(cuMemAllocAsync_ptsz(&address, 10004, NULL), "async");
	must(cuMemFreeAsync_ptsz(address, NULL), "free async");
	/* Both ways across are legal. */
	must(cuMemAllocAsync(&address, 10005, NULL), "async");
	must(cuMemFree_v2(address), "free");
	must(cuMemAlloc_v2(&address, 10006), "alloc");
	must(cuMemFreeAsync(address, NULL), "free async");
}

static void host(void)
{
	void *address;

	must(cuMemAllocHost_v2(&address, 20001), "host"); /* @host */
	must(cuMemAllocHost_v2(&address, 20002), "host");
	must(cuMemFreeHost(address), "free host");
	must(cuMemHostAlloc(&address, 20003, 0), "host alloc"); /* @host_alloc */
	must(cuMemHostAlloc(&address, 20004, 0), "host alloc");
	must(cuMemFreeHost(address), "free host");
	must(cuMemHostRegister_v2(lent[0], 4096, 0), "register"); /* @register */
	must(cuMemHostRegister_v2(lent[1], 4096, 0), "register");
	must(cuMemHostUnregister(lent[1]), "unregister");
}

static void leak(void)
{
	stream_ordered(); /* @main_stream */
	host(); /* @main_host */
}

static void twice(void)
{
	void *address;

	must(cuMemHostAlloc(&address, 20005, 0), "host alloc"); /* @made */
	must(cuMemFreeHost(address), "free host"); /* @once */
	printf("again: %d\n", cuMemFreeHost(address)); /* @again */
	must(cuMemHostRegister_v2(lent[2], 4096, 0), "register"); /* @lent */
	must(cuMemHostUnregister(lent[2]), "unregister"); /* @back */
	printf("back again: %d\n", cuMemHostUnregister(lent[2])); /* @back_again */
}

static void mixed_up(void)
{
	CUdeviceptr device;
	void *pinned;

	must(cuMemHostAlloc(&pinned, 20006, 0), "host alloc"); /* @pinned */
	printf("as device: %d\n", cuMemFree_v2((CUdeviceptr)(size_t)pinned)); /* @as_device */
	must(cuMemFreeHost(pinned), "free host");
	must(cuMemAlloc_v2(&device, 10007), "alloc"); /* @device */
	printf("as host: %d\n", cuMemFreeHost((void *)(size_t)device)); /* @as_host */
	must(cuMemFree_v2(device), "free");
}

static void arrays(void)
{
	const struct array_descriptor flat = { 100, 10, CU_AD_FORMAT_FLOAT, 4 };
	const struct array3d_descriptor deep = { 16, 8, 4, CU_AD_FORMAT_FLOAT, 2, 0 };
	const struct array3d_descriptor wide = { 16, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0 };
	void *array;

	must(cuArrayCreate_v2(&array, &flat), "array"); /* @flat */
	must(cuArrayCreate_v2(&array, &flat), "array");
	must(cuArrayDestroy(array), "destroy");
	must(cuArray3DCreate_v2(&array, &deep), "array 3D"); /* @deep */
	must(cuMipmappedArrayCreate(&array, &wide, 99), "mipmaps"); /* @mipmaps */
	must(cuMipmappedArrayCreate(&array, &wide, 2), "mipmaps");
	must(cuMipmappedArrayDestroy(array), "destroy");
}

/* A real driver does not survive this: the report must be there all the same. */
static void array_twice(void)
{
	const struct array_descriptor flat = { 100, 10, CU_AD_FORMAT_FLOAT, 4 };
	void *array;

	must(cuArrayCreate_v2(&array, &flat), "array"); /* @flat2 */
	must(cuArrayDestroy(array), "destroy"); /* @destroy */
	printf("again: %d\n", cuArrayDestroy(array)); /* @destroy_again */
}

/* Each object is destroyed by the call for another type, which no driver has to survive. */
static void other_destroy(void)
{
	const struct array_descriptor flat = { 100, 10, CU_AD_FORMAT_FLOAT, 4 };
	const struct array3d_descriptor wide = { 16, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0 };
	int properties[22] = { 1, 0, 1, 0 }; /* pinned, no handle; on a device, number 0 */
	void *array, *mipmaps, *pool;

	must(cuArrayCreate_v2(&array, &flat), "array"); /* @other_array */
	must(cuMipmappedArrayCreate(&mipmaps, &wide, 2), "mipmaps"); /* @other_mipmaps */
	must(cuMemPoolCreate(&pool, properties), "pool"); /* @other_pool */
	printf("mipmaps as array: %d\n", cuArrayDestroy(mipmaps)); /* @as_array */
	printf("array as mipmaps: %d\n", cuMipmappedArrayDestroy(array)); /* @as_mipmaps */
	printf("pool as array: %d\n", cuArrayDestroy(pool)); /* @pool_as_array */
	must(cuArrayDestroy(array), "destroy");
	must(cuMipmappedArrayDestroy(mipmaps), "destroy"); /* @by_its_own */
	must(cuMemPoolDestroy(pool), "destroy");
	printf("destroyed as array: %d\n", cuArrayDestroy(mipmaps)); /* @dead_as_array */
}

/* Inside a registered range, inside pinned memory, and outside any. */
static void inside(void)
{
	char *pinned;

	must(cuMemHostRegister_v2(lent[0], 4096, 0), "register"); /* @lent_whole */
	printf("inside: %d\n", cuMemHostUnregister(lent[0] + 256)); /* @inside_lent */
	must(cuMemHostUnregister(lent[0]), "unregister");
	must(cuMemHostAlloc((void **)&pinned, 20007, 0), "host alloc"); /* @pinned_whole */
	printf("inside pinned: %d\n", cuMemHostUnregister(pinned + 256)); /* @inside_pinned */
	must(cuMemFreeHost(pinned), "free host");
	printf("outside: %d\n", cuMemHostUnregister(lent[2])); /* @outside */
}

static void pools(void)
{
	int properties[22] = { 1, 0, 1, 0 }; /* pinned, no handle; on a device, number 0 */
	void *own, *other, *standard;
	CUdeviceptr address;

	must(cuDeviceGetDefaultMemPool(&standard, 0), "default");
	must(cuMemPoolCreate(&own, properties), "pool"); /* @pool */
	must(cuMemPoolCreate(&other, properties), "pool");
	must(cuMemPoolDestroy(other), "destroy");
	must(cuMemAllocFromPoolAsync(&address, 40001, own, NULL), "from pool"); /* @from_pool */
	must(cuMemAllocFromPoolAsync(&address, 40002, standard, NULL), "from pool");
	must(cuMemFreeAsync(address, NULL), "free");
}

/* A block that is imported twice is one block; so is freeing it. */
static void imported(void)
{
	int properties[22] = { 1, 1, 1, 0 }; /* pinned, by descriptor; on a device, number 0 */
	void *own, *other, *handle;
	char data[64];
	CUdeviceptr address, same, again;
	int descriptor;

	must(cuMemPoolCreate(&own, properties), "pool");
	must(cuMemAllocFromPoolAsync(&address, 50001, own, NULL), "from pool");
	must(cuMemPoolExportToShareableHandle(&descriptor, own, 1, 0), "export");
	must(cuMemPoolExportPointer(data, address), "export block");
	handle = (void *)(intptr_t)descriptor;
	must(cuMemPoolImportFromShareableHandle(&other, handle, 1, 0), "import"); /* @import */
	must(cuMemPoolImportPointer(&same, other, data), "import block"); /* @import_block */
	must(cuMemPoolImportPointer(&again, other, data), "import block");
	printf("same: %s\n", same == again ? "yes" : "no");
	must(cuMemFreeAsync(same, NULL), "free"); /* @free_imported */
	printf("again: %d\n", cuMemFreeAsync(again, NULL)); /* @free_imported_again */
	must(cuMemPoolImportPointer(&same, other, data), "import block"); /* @import_lost */
	must(cuMemFreeAsync(address, NULL), "free");
	must(cuMemPoolDestroy(own), "destroy");
}

/* What a graph captures is the graph's. */
static void captured(void)
{
	void *stream, *graph;
	CUdeviceptr address;
	CUresult made;

	must(cuStreamCreate(&stream, 1), "stream");
	must(cuStreamBeginCapture_v2(stream, 2), "begin");
	made = cuMemAllocAsync(&address, 30000, stream);
	if (made == 0)
		made = cuMemFreeAsync(address, stream);
	cuStreamEndCapture(stream, &graph);
	printf("captured: %s\n", made == 0 ? "yes" : "refused");
}

int main(int argc, char **argv)
{
	const char *story = argc > 1 ? argv[1] : "leak";

	begin();
	if (strcmp(story, "leak") == 0)
		leak(); /* @leak */
	else if (strcmp(story, "twice") == 0)
		twice(); /* @twice */
	else if (strcmp(story, "mixed") == 0)
		mixed_up(); /* @mixed */
	else if (strcmp(story, "arrays") == 0)
		arrays(); /* @arrays */
	else if (strcmp(story, "array-twice") == 0)
		array_twice(); /* @array_twice */
	else if (strcmp(story, "other-destroy") == 0)
		other_destroy(); /* @other_destroy */
	else if (strcmp(story, "inside") == 0)
		inside(); /* @inside */
	else if (strcmp(story, "imported") == 0)
		imported(); /* @imported */
	else if (strcmp(story, "pools") == 0)
		pools(); /* @pools */
	else
		captured();
	return 0;
}
