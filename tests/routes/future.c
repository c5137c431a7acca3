/* SPDX-License-Identifier: MIT
 *
 * A driver of a later day: for cuMemAlloc from version 14000 on it has a function that no
 * table of today knows, with another ABI, and it has functions of new names. Only what a
 * program needs to meet them.
 */
#include <string.h>

#include "cu.h"

#define DRIVER __attribute__((visibility("default")))

DRIVER CUresult cuInit(unsigned int flags)
{
	return flags ? 1 : 0;
}

DRIVER CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	static CUdeviceptr next = 0x700000000;

	*address = next;
	next += (bytes + 511) & ~(size_t)511;
	return 0;
}

DRIVER CUresult cuMemAlloc_v3(size_t bytes, int where, CUdeviceptr *address);
DRIVER CUresult cuMemAlloc_v3(size_t bytes, int where, CUdeviceptr *address)
{
	return where == 42 ? cuMemAlloc_v2(address, bytes) : 1;
}

#define NAMED(name)             \
	DRIVER void name(void); \
	DRIVER void name(void)  \
	{                       \
	}
NAMED(cuMemHoard)
NAMED(cuMemSquirrel)
NAMED(cuLogicalEndpointCreate)
NAMED(cuModuleLoadData)
NAMED(cuStreamGetPriority)

DRIVER CUresult cuGetExportTable(const void **table, const void *id);
DRIVER CUresult cuGetExportTable(const void **table, const void *id)
{
	static const size_t empty[1] = { sizeof(empty) };

	if (!id || *(const unsigned char *)id == 0xff)
		return 1;
	*table = empty;
	return 0;
}

DRIVER CUresult cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags,
				    int *status);
DRIVER CUresult cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags,
				    int *status)
{
	(void)flags;
	*ret = NULL;
	if (strcmp(name, "cuInit") == 0)
		*ret = (void *)cuInit;
	else if (strcmp(name, "cuMemAlloc") == 0)
		*ret = version >= 14000 ? (void *)cuMemAlloc_v3 : (void *)cuMemAlloc_v2;
	else if (strcmp(name, "cuGetExportTable") == 0)
		*ret = (void *)cuGetExportTable;
	else if (strcmp(name, "cuMemSquirrel") == 0)
		*ret = (void *)cuMemSquirrel;
	if (status)
		*status = *ret ? 0 : 1;
	return 0;
}
