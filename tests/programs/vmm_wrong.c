/* SPDX-License-Identifier: MIT
 *
 * Every number handed to the wrong call. The driver refuses all of it, all stays as it was,
 * and in the end each block goes the right way: only errors may be left.
 */
#include <string.h>

#include "vmm.h"

CUresult cuIpcCloseMemHandle(CUdeviceptr address);

static const struct location device = { ON_DEVICE, 0 };
static char lent[4096];

static void linear(void)
{
	CUdeviceptr address, pooled;
	void *pinned;

	must(cuMemAlloc_v2(&address, 5000), "alloc"); /* @linear */
	printf("%d", cuMemFreeHost((void *)(size_t)address)); /* @linear_host */
	printf(" %d", cuMemRelease(address)); /* @linear_release */
	printf(" %d", cuMemUnmap(address, GRAIN)); /* @linear_unmap */
	printf(" %d", cuMemAddressFree(address, GRAIN)); /* @linear_free */
	printf(" %d\n", cuMemHostUnregister((void *)(size_t)address)); /* @linear_unregister */
	must(cuMemFree_v2(address), "free");
	must(cuMemAllocAsync(&pooled, 6000, NULL), "async"); /* @pooled */
	printf("%d\n", cuIpcCloseMemHandle(pooled)); /* @pooled_close */
	must(cuMemFree_v2(pooled), "free");
	must(cuMemHostAlloc(&pinned, 7000, 0), "pinned"); /* @pinned */
	printf("%d", cuMemFree_v2((size_t)pinned)); /* @pinned_free */
	printf(" %d\n", cuMemUnmap((size_t)pinned, GRAIN)); /* @pinned_unmap */
	must(cuMemFreeHost(pinned), "free host");
}

static void lent_memory(void)
{
	must(cuMemHostRegister_v2(lent, sizeof(lent), 0), "register"); /* @lent */
	printf("%d", cuMemFreeHost(lent)); /* @lent_host */
	printf(" %d\n", cuMemFree_v2((size_t)lent)); /* @lent_free */
	must(cuMemHostUnregister(lent), "unregister");
}

static void handles(void)
{
	const struct array_descriptor flat = { 100, 10, CU_AD_FORMAT_FLOAT, 4 };
	vmm_handle handle = create_on(device, 0, 2 * GRAIN); /* @handle */
	void *array;

	printf("%d", cuMemFree_v2(handle)); /* @handle_free */
	printf(" %d\n", cuMemUnmap(handle, GRAIN)); /* @handle_unmap */
	must(cuMemRelease(handle), "release");
	must(cuArrayCreate_v2(&array, &flat), "array"); /* @array */
	printf("%d", cuMemRelease((size_t)array)); /* @array_release */
	printf(" %d\n", cuMemRelease(0x1234560)); /* @stranger */
	must(cuArrayDestroy(array), "destroy");
}

static void mapped(CUdeviceptr address)
{
	printf("%d", cuMemFree_v2(address)); /* @mapped_free */
	printf(" %d", cuMemFreeAsync(address, NULL)); /* @mapped_async */
	printf(" %d", cuMemFree_v2(address + 4096)); /* @inside */
	printf(" %d", cuMemUnmap(address + GRAIN, GRAIN)); /* @inside_unmap */
	printf(" %d", cuMemUnmap(address, GRAIN)); /* @half */
	printf(" %d", cuMemUnmap(address, 32 * GRAIN)); /* @beyond */
	printf(" %d\n", cuMemAddressFree(address, 8 * GRAIN)); /* @while_mapped */
}

static void reserved(CUdeviceptr address)
{
	printf("%d", cuMemFree_v2(address)); /* @reserved_free */
	printf(" %d", cuMemFreeAsync(address, NULL)); /* @reserved_async */
	printf(" %d", cuMemRelease(address)); /* @reserved_release */
	printf(" %d", cuMemAddressFree(address, 2 * GRAIN)); /* @reserved_part */
	printf(" %d\n", cuMemAddressFree(address + 2 * GRAIN, 2 * GRAIN)); /* @reserved_inside */
}

static void ranges(void)
{
	vmm_handle handle = create_on(device, 0, 2 * GRAIN); /* @range_handle */
	CUdeviceptr address = reserve(8 * GRAIN); /* @range */

	map(address, 2 * GRAIN, handle); /* @mapping */
	mapped(address); /* @mapped */
	must(cuMemUnmap(address, 2 * GRAIN), "unmap"); /* @unmapped */
	reserved(address); /* @reserved */
	must(cuMemAddressFree(address, 8 * GRAIN), "free"); /* @range_freed */
	printf("%d\n", cuMemAddressFree(address, 8 * GRAIN)); /* @range_again */
	printf("%d\n", cuMemUnmap(address, 2 * GRAIN)); /* @unmap_gone */
	must(cuMemRelease(handle), "release"); /* @released */
	printf("%d\n", cuMemRelease(handle)); /* @released_again */
}

/* Frees a reservation of four parts. WHICH are those that are mapped at that moment, a bit each. */
static void while_partly_mapped(unsigned int which)
{
	CUdeviceptr address = reserve(4 * GRAIN);

	for (unsigned int i = 0; i < 4; i++) {
		vmm_handle handle = create_on(device, 0, GRAIN);

		must(cuMemMap(address + i * GRAIN, GRAIN, 0, handle, 0), "map"); /* @part */
		must(cuMemRelease(handle), "release");
	}
	for (unsigned int i = 0; i < 4; i++)
		if (!(which >> i & 1))
			must(cuMemUnmap(address + i * GRAIN, GRAIN), "unmap");
	printf("%d\n", cuMemAddressFree(address, 4 * GRAIN)); /* @partly */
	for (unsigned int i = 0; i < 4; i++)
		if (which >> i & 1)
			must(cuMemUnmap(address + i * GRAIN, GRAIN), "unmap");
	must(cuMemAddressFree(address, 4 * GRAIN), "free");
}

/* What is legal. */
static void right(void)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, 1000), "alloc");
	must(cuMemFreeAsync(address, NULL), "free async");
	must(cuMemAllocAsync(&address, 2000, NULL), "async");
	must(cuMemFree_v2(address), "free");
	must(cuMemFree_v2(0), "nothing");
}

int main(int argc, char **argv)
{
	const char *story = argc > 1 ? argv[1] : "right";

	begin();
	if (strcmp(story, "linear") == 0)
		linear(); /* @main_linear */
	else if (strcmp(story, "lent") == 0)
		lent_memory(); /* @main_lent */
	else if (strcmp(story, "handles") == 0)
		handles(); /* @main_handles */
	else if (strcmp(story, "ranges") == 0)
		ranges(); /* @main_ranges */
	else if (strcmp(story, "partly") == 0)
		while_partly_mapped((unsigned int)atoi(argv[2]));
	else
		right();
	return 0;
}
