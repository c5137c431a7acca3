/* SPDX-License-Identifier: MIT
 *
 * Goes on when the driver fails: three allocations, and each that worked is freed once.
 * STANDIN_FAIL says which calls fail.
 */
#include "cu.h"

static CUresult allocate(CUdeviceptr *address, size_t bytes)
{
	return cuMemAlloc_v2(address, bytes); /* @allocate */
}

int main(void)
{
	CUdeviceptr blocks[3] = { 0 };

	begin();
	for (int i = 0; i < 3; i++)
		printf("alloc %d: %d\n", i, allocate(&blocks[i], 1000 * (i + 1))); /* @main */
	for (int i = 0; i < 3; i++)
		if (blocks[i])
			printf("free %d: %d\n", i, cuMemFree_v2(blocks[i])); /* @free */
	return 0;
}
