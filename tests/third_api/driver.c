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

int toyContextCreate(int *context)
{
	*context = TOY_CONTEXT;
	return TOY_SUCCESS;
}

int toyLiveBlocks(void)
{
	int count = 0;

	for (size_t i = 0; i < BLOCKS; i++)
		count += live[i];
	return count;
}

static void *next_handle = (void *)0x1000;

void toyNextHandle(void *handle)
{
	next_handle = handle;
}

static int make(void **handle)
{
	*handle = next_handle;
	return TOY_SUCCESS;
}

int toyImageCreate(void **image, size_t bytes)
{
	(void)bytes;
	return make(image);
}

int toyStreamCreate(void **stream)
{
	return make(stream);
}

int toyEventCreate(void **event)
{
	return make(event);
}

int toyImageDestroy(void *image)
{
	return image ? TOY_SUCCESS : TOY_INVALID;
}

int toyStreamDestroy(void *stream)
{
	return stream ? TOY_SUCCESS : TOY_INVALID;
}

int toyEventDestroy(void *event)
{
	return event ? TOY_SUCCESS : TOY_INVALID;
}

#define HOOK(symbol, returns, parameters, ...)                                              \
	returns symbol parameters                                                           \
	{                                                                                   \
		return value;                                                               \
	}
#include "interpose/toy/toy_submits.def"

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
