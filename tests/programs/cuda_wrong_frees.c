/* SPDX-License-Identifier: MIT
 *
 * A frame queue with every sort of wrong free: one block twice, one by an address inside it,
 * one that no allocation returned, and one that is forgotten. A free of 0 is no mistake.
 */
#include "cu.h"

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @allocate */
	return address;
}

static void drop(CUdeviceptr frame)
{
	printf("drop: %d\n", cuMemFree_v2(frame)); /* @drop */
}

static void drop_again(CUdeviceptr frame)
{
	printf("again: %d\n", cuMemFree_v2(frame)); /* @again */
}

static void drop_inside(CUdeviceptr frame)
{
	printf("inside: %d\n", cuMemFree_v2(frame + 256)); /* @inside */
}

static void drop_foreign(void)
{
	printf("foreign: %d\n", cuMemFree_v2(0x1234000)); /* @foreign */
}

int main(void)
{
	CUdeviceptr twice, whole;

	begin();
	allocate(100000); /* @forgotten */
	twice = allocate(5000); /* @twice */
	whole = allocate(70000); /* @whole */
	drop(twice); /* @first */
	drop_again(twice); /* @second */
	drop_inside(whole); /* @middle */
	drop_foreign(); /* @stranger */
	drop(whole);
	printf("zero: %d\n", cuMemFree_v2(0));
	return 0;
}
