/* SPDX-License-Identifier: MIT
 *
 * Calls that only the level pages needs. Queries return what the driver returns for a block of its
 * own, with the application's address and size. Must not decide which blocks are guarded.
 */
#include "interpose/guard/pages_calls.h"

#include <string.h>

#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/cuda_rows.h"
#include "interpose/guard/guard.h"
#include "interpose/guard/launches.h"
#include "interpose/guard/pages.h"

/* The beginning of the struct of cuda.h. */
struct CUlaunchConfig_st {
	unsigned int grid[3], block[3], shared;
	CUstream stream;
};

/* CUpointer_attribute: the values of cuda.h. */
enum {
	ATTRIBUTE_DEVICE_POINTER = 3,
	ATTRIBUTE_IPC_CAPABLE = 10,
	ATTRIBUTE_RANGE_START = 11,
	ATTRIBUTE_RANGE_SIZE = 12,
};

/* ---- allocation ---- */

GUARDED(guard_alloc_pitch, CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
	unsigned int element)
{
	CUresult r;

	if (pages_alloc_pitch(call, address, pitch, width, height, element, &r))
		return r;
	return DRIVER(cuMemAllocPitch_v2, real)(address, pitch, width, height, element);
}

static CUresult unguarded(enum guard_not reason, CUresult r)
{
	if (r == CUDA_SUCCESS)
		guard_count_unguarded(reason);
	return r;
}

GUARDED(guard_alloc_managed, CUdeviceptr *address, size_t bytes, unsigned int flags)
{
	(void)call;
	return unguarded(GUARD_NOT_MANAGED,
			 DRIVER(cuMemAllocManaged, real)(address, bytes, flags));
}

GUARDED(guard_alloc_async, CUdeviceptr *address, size_t bytes, CUstream stream)
{
	(void)call;
	return unguarded(GUARD_NOT_STREAM_ORDERED,
			 DRIVER(cuMemAllocAsync, real)(address, bytes, stream));
}

GUARDED(guard_alloc_from_pool, CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
	CUstream stream)
{
	(void)call;
	return unguarded(GUARD_NOT_STREAM_ORDERED,
			 DRIVER(cuMemAllocFromPoolAsync, real)(address, bytes, pool, stream));
}

/* The driver has no handle for memory that was allocated otherwise. */
GUARDED(guard_retain_handle, CUmemGenericAllocationHandle *handle, void *address)
{
	struct page_place place;

	(void)call;
	if (pages_lookup((uintptr_t)address, &place))
		return CUDA_ERROR_INVALID_VALUE;
	return DRIVER(cuMemRetainAllocationHandle, real)(handle, address);
}

/* ---- queries ---- */

/* Returns true if a live guarded block contains ADDRESS. */
static bool is_guarded(CUdeviceptr address, struct page_place *ret)
{
	return pages_lookup(address, ret) && ret->live && address - ret->address < ret->bytes;
}

bool pages_range(void *real, CUdeviceptr *base, size_t *size, CUdeviceptr address, CUresult *ret)
{
	struct page_place place;

	if (!is_guarded(address, &place))
		return false;
	*ret = DRIVER(cuMemGetAddressRange_v2, real)(base, size, place.companion);
	if (*ret == CUDA_SUCCESS && base)
		*base = place.address;
	if (*ret == CUDA_SUCCESS && size)
		*size = place.bytes;
	return true;
}

/* DATA has ATTRIBUTE of the companion of PLACE. Replaces what differs for ADDRESS. The driver
 * exports no mapped memory by IPC. */
static void correct(const struct page_place *place, CUpointer_attribute attribute, void *data,
		    CUdeviceptr address)
{
	if (attribute == ATTRIBUTE_DEVICE_POINTER)
		memcpy(data, &address, sizeof(address));
	else if (attribute == ATTRIBUTE_RANGE_START)
		memcpy(data, &place->address, sizeof(place->address));
	else if (attribute == ATTRIBUTE_RANGE_SIZE)
		memcpy(data, &place->bytes, sizeof(place->bytes));
	else if (attribute == ATTRIBUTE_IPC_CAPABLE)
		*(unsigned char *)data = 0;
}

bool pages_attribute(void *real, void *data, CUpointer_attribute attribute, CUdeviceptr address,
		     CUresult *ret)
{
	struct page_place place;

	if (!is_guarded(address, &place))
		return false;
	*ret = DRIVER(cuPointerGetAttribute, real)(data, attribute, place.companion);
	if (*ret == CUDA_SUCCESS)
		correct(&place, attribute, data, address);
	return true;
}

bool pages_attributes(void *real, unsigned int count, CUpointer_attribute *attributes, void **data,
		      CUdeviceptr address, CUresult *ret)
{
	struct page_place place;

	if (!is_guarded(address, &place))
		return false;
	*ret = DRIVER(cuPointerGetAttributes, real)(count, attributes, data, place.companion);
	for (unsigned int i = 0; *ret == CUDA_SUCCESS && i < count; i++)
		correct(&place, attributes[i], data[i], address);
	return true;
}

/* If the driver can't set the attribute for mapped memory, the application finds it set. */
bool pages_set_attribute(void *real, const void *value, CUpointer_attribute attribute,
			 CUdeviceptr address, CUresult *ret)
{
	struct page_place place;
	CUresult again;

	if (!is_guarded(address, &place))
		return false;
	*ret = DRIVER(cuPointerSetAttribute, real)(value, attribute, address);
	again = DRIVER(cuPointerSetAttribute, real)(value, attribute, place.companion);
	if (*ret != CUDA_SUCCESS)
		*ret = again;
	return true;
}

/* ---- launches ---- */

/* The result of DRIVER_CALL, which launches F. */
#define LAUNCH(driver_call, f, stream, params, extra)                                       \
	struct guarded_launch launch;                                                       \
	bool noted = launches_look(&launch, f, stream, params, extra);                      \
	CUresult r = driver_call;                                                           \
	return noted ? launches_note(call, r, &launch, f, stream) : r;

GUARDED(guard_launch, CUfunction f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
	unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
	CUstream stream, void **params, void **extra)
{
	LAUNCH(DRIVER(cuLaunchKernel, real)(f, grid_x, grid_y, grid_z, block_x, block_y, block_z,
					    shared, stream, params, extra),
	       f, stream, params, extra)
}

GUARDED(guard_launch_cooperative, CUfunction f, unsigned int grid_x, unsigned int grid_y,
	unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	unsigned int shared, CUstream stream, void **params)
{
	LAUNCH(DRIVER(cuLaunchCooperativeKernel, real)(f, grid_x, grid_y, grid_z, block_x, block_y,
						       block_z, shared, stream, params),
	       f, stream, params, NULL)
}

GUARDED(guard_launch_ex, const CUlaunchConfig *how, CUfunction f, void **params, void **extra)
{
	CUstream stream = how ? how->stream : NULL;

	LAUNCH(DRIVER(cuLaunchKernelEx, real)(how, f, params, extra), f, stream, params, extra)
}
