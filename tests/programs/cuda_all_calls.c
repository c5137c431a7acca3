/* SPDX-License-Identifier: MIT
 *
 * Leaks one block by each call that makes linear memory, old 32-bit ones included, and
 * frees one more of each.
 */
#include "cu.h"

static void linear(void)
{
	CUdeviceptr_v1 small;
	CUdeviceptr address;

	must(cuMemAlloc(&small, 1001), "cuMemAlloc"); /* @v1 */
	must(cuMemAlloc(&small, 1002), "cuMemAlloc");
	must(cuMemFree(small), "cuMemFree");
	must(cuMemAlloc_v2(&address, 3000000), "cuMemAlloc_v2"); /* @v2 */
	must(cuMemAlloc_v2(&address, 3000001), "cuMemAlloc_v2");
	must(cuMemFree_v2(address), "cuMemFree_v2");
}

static void pitched(void)
{
	CUdeviceptr_v1 small;
	CUdeviceptr address;
	unsigned int small_pitch;
	size_t pitch;

	must(cuMemAllocPitch(&small, &small_pitch, 1000, 7, 4), "cuMemAllocPitch"); /* @pitch_v1 */
	printf("pitch %u\n", small_pitch);
	must(cuMemAllocPitch(&small, &small_pitch, 1000, 7, 4), "cuMemAllocPitch");
	must(cuMemFree(small), "cuMemFree");
	must(cuMemAllocPitch_v2(&address, &pitch, 1030, 5, 8), "pitch_v2"); /* @pitch_v2 */
	printf("pitch %zu\n", pitch);
	must(cuMemAllocPitch_v2(&address, &pitch, 1030, 5, 8), "cuMemAllocPitch_v2");
	must(cuMemFree_v2(address), "cuMemFree_v2");
}

static void managed(void)
{
	CUdeviceptr address;

	must(cuMemAllocManaged(&address, 5003, CU_MEM_ATTACH_GLOBAL), "managed"); /* @managed */
	must(cuMemAllocManaged(&address, 5004, CU_MEM_ATTACH_GLOBAL), "managed");
	must(cuMemFree_v2(address), "cuMemFree_v2");
}

int main(void)
{
	begin();
	linear(); /* @linear */
	pitched(); /* @pitched */
	managed(); /* @main_managed */
	return 0;
}
