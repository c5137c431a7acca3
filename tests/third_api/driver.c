/* SPDX-License-Identifier: MIT
 *
 * libtoy.so.1: hands out addresses where nothing is.
 */
#include "toy.h"

#define BLOCKS 64
#define FIRST 0x7a0000000000ul
#define STRIDE 0x1000000ul

static char live[BLOCKS];

int toyAlloc(void **address, size_t bytes)
{
	(void)bytes;
	for (size_t i = 0; i < BLOCKS; i++)
		if (!live[i]) {
			live[i] = 1;
			*address = (void *)(FIRST + i * STRIDE);
			return TOY_SUCCESS;
		}
	return TOY_OUT_OF_MEMORY;
}

int toyAllocManaged(void **address, size_t bytes)
{
	return toyAlloc(address, bytes);
}

int toyFree(void *address)
{
	size_t i = ((size_t)address - FIRST) / STRIDE;

	if (i >= BLOCKS || !live[i])
		return TOY_INVALID;
	live[i] = 0;
	return TOY_SUCCESS;
}

int toyContextDestroy(int context)
{
	if (context != TOY_CONTEXT)
		return TOY_INVALID;
	for (size_t i = 0; i < BLOCKS; i++)
		live[i] = 0;
	return TOY_SUCCESS;
}

size_t toyDeviceTotal(int device)
{
	return device == TOY_DEVICE ? 10000 : 0;
}

int toyImport(void **address, const char *name)
{
	(void)name;
	return toyAlloc(address, 0);
}

int toyVersion(void)
{
	return 1;
}

int toyNewer(void)
{
	return TOY_SUCCESS;
}
