/* SPDX-License-Identifier: MIT
 *
 * Queries whose results must not show that there is a pool. For a block that the pool caches, the
 * driver is queried about an unmapped address, so the result is that for a freed block. For a live
 * block, the result has the address and size that the application requested. A block that another
 * process or device may still access, or whose attributes were changed, is not reused. The wrappers
 * do not read any argument that the driver rejected.
 */
#include <errno.h>
#include <string.h>

#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/block/limit.h"
#include "interpose/cuda/pool/pool.h"
#include "interpose/dispatch/resolve.h"

/* An address that is never mapped: it is below the lowest address that a process may map. */
#define NOWHERE 0x1000u

/* CUpointer_attribute: the values of cuda.h. */
enum {
	ATTRIBUTE_DEVICE_POINTER = 3,
	ATTRIBUTE_HOST_POINTER = 4,
	ATTRIBUTE_P2P_TOKENS = 5, /* reading it sets SYNC_MEMOPS */
	ATTRIBUTE_IPC_CAPABLE = 10,
	ATTRIBUTE_RANGE_START = 11,
	ATTRIBUTE_RANGE_SIZE = 12,
};

enum whose { NOT_OURS, GONE, LIVE };

/* Returns NOT_OURS if ADDRESS is not in a block of the pool. Returns LIVE, with the block in *RET,
 * if the application owns the memory there. Returns GONE otherwise. */
static enum whose whose(struct route route, uint64_t address, struct pool_place *ret)
{
	int saved = errno;
	bool found;

	if (!route.record || !atomic_load_explicit(&pool_on, memory_order_relaxed))
		return NOT_OURS;
	found = pool_lookup(address, ret);
	errno = saved;
	if (!found)
		return NOT_OURS;
	return ret->live && address - ret->address < ret->bytes ? LIVE : GONE;
}

static void never_reuse(const struct pool_place *place, enum ledger_pool_reason why)
{
	int saved = errno;

	pool_never_reuse(place->address, why);
	errno = saved;
}

/* Turns slabs off and returns NOT_SUPPORTED. A part of a slab cannot be shared: the driver could
 * share only the whole slab. */
static CUresult no_share_of_slab(void)
{
	int saved = errno;

	pool_no_slabs();
	errno = saved;
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- how much is free ---- */

static uint64_t with_unused(uint64_t free, uint64_t total)
{
	int saved = errno, device;
	uint64_t context;

	cuda_current_context(&context, &device);
	if (device >= 0)
		free += pool_unused_bytes(device);
	errno = saved;
	return free < total ? free : total;
}

static bool pooling(struct route route)
{
	return route.record && atomic_load_explicit(&pool_on, memory_order_relaxed);
}

/* Reduces the free BYTES to what the limit still permits the application to allocate. */
static uint64_t within_limit(struct route route, uint64_t bytes)
{
	uint64_t context, left;
	int device;

	if (!route.record || !limits_on())
		return bytes;
	cuda_current_context(&context, &device);
	left = limits_left(API_CUDA, device);
	return bytes < left ? bytes : left;
}

static CUresult body_cuMemGetInfo_v2(struct route route, size_t *free, size_t *total)
{
	CUresult r = DRIVER_CALL(route.real, CUresult(*)(size_t *, size_t *), (free, total));
	size_t unused, all;

	if (r != CUDA_SUCCESS || !free)
		return r;
	if (pooling(route)) {
		if (total)
			all = *total;
		else if (DRIVER_CALL(route.real, CUresult(*)(size_t *, size_t *),
				     (&unused, &all)) != CUDA_SUCCESS)
			return r;
		*free = with_unused(*free, all);
	}
	*free = within_limit(route, *free);
	return r;
}
CUDA_HAND(cuMemGetInfo_v2, (size_t *free, size_t *total), (route, free, total))

static CUresult body_cuMemGetInfo(struct route route, unsigned int *free, unsigned int *total)
{
	CUresult r =
		DRIVER_CALL(route.real, CUresult(*)(unsigned int *, unsigned int *), (free, total));
	unsigned int unused, all;

	if (r != CUDA_SUCCESS || !free)
		return r;
	if (pooling(route)) {
		if (total)
			all = *total;
		else if (DRIVER_CALL(route.real, CUresult(*)(unsigned int *, unsigned int *),
				     (&unused, &all)) != CUDA_SUCCESS)
			return r;
		*free = (unsigned int)with_unused(*free, all);
	}
	*free = (unsigned int)within_limit(route, *free);
	return r;
}
CUDA_HAND(cuMemGetInfo, (unsigned int *free, unsigned int *total), (route, free, total))

/* ---- where a block begins and ends ---- */

static CUresult body_cuMemGetAddressRange_v2(struct route route, CUdeviceptr *base, size_t *size,
					     CUdeviceptr address)
{
	struct pool_place place;
	enum whose whom = whose(route, address, &place);
	CUresult r = DRIVER_CALL(route.real, CUresult(*)(CUdeviceptr *, size_t *, CUdeviceptr),
				 (base, size, whom == GONE ? NOWHERE : address));

	if (r == CUDA_SUCCESS && whom == LIVE) {
		if (base)
			*base = place.address;
		if (size)
			*size = place.bytes;
	}
	return r;
}
CUDA_HAND(cuMemGetAddressRange_v2, (CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr),
	  (route, pbase, psize, dptr))

static CUresult body_cuMemGetAddressRange(struct route route, CUdeviceptr_v1 *base,
					  unsigned int *size, CUdeviceptr_v1 address)
{
	struct pool_place place;
	enum whose whom = whose(route, address, &place);
	CUresult r = DRIVER_CALL(route.real,
				 CUresult(*)(CUdeviceptr_v1 *, unsigned int *, CUdeviceptr_v1),
				 (base, size, whom == GONE ? NOWHERE : address));

	if (r == CUDA_SUCCESS && whom == LIVE) {
		if (base)
			*base = (CUdeviceptr_v1)place.address;
		if (size)
			*size = (unsigned int)place.bytes;
	}
	return r;
}
CUDA_HAND(cuMemGetAddressRange, (CUdeviceptr_v1 *pbase, unsigned int *psize, CUdeviceptr_v1 dptr),
	  (route, pbase, psize, dptr))

/* ---- attributes ---- */

/* The driver stored ATTRIBUTE of its own block in DATA. Replaces it by the attribute of the
 * application's block PLACE. */
static void correct(const struct pool_place *place, CUpointer_attribute attribute, void *data)
{
	if (!data)
		return;
	switch (attribute) {
	case ATTRIBUTE_RANGE_START:
		memcpy(data, &place->address, sizeof(place->address));
		break;
	case ATTRIBUTE_RANGE_SIZE:
		memcpy(data, &place->bytes, sizeof(place->bytes));
		break;
	case ATTRIBUTE_IPC_CAPABLE: /* 0 or 1; setting the first byte is enough for any size */
		if (!place->whole)
			*(unsigned char *)data = 0;
		break;
	case ATTRIBUTE_P2P_TOKENS:
		never_reuse(place, LEDGER_POOL_EXPORTED);
		break;
	default:
		break;
	}
}

/* For an unmapped address, the driver may take it for a host address and return it. Replaces
 * NOWHERE in DATA by ADDRESS, which the application passed. */
static void give_back(CUpointer_attribute attribute, void *data, uint64_t address)
{
	uint64_t nowhere = NOWHERE;

	if (data &&
	    (attribute == ATTRIBUTE_DEVICE_POINTER || attribute == ATTRIBUTE_HOST_POINTER) &&
	    memcmp(data, &nowhere, sizeof(nowhere)) == 0)
		memcpy(data, &address, sizeof(address));
}

static CUresult body_cuPointerGetAttribute(struct route route, void *data,
					   CUpointer_attribute attribute, CUdeviceptr address)
{
	struct pool_place place;
	enum whose whom = whose(route, address, &place);
	CUresult r;

	if (whom == LIVE && !place.whole && attribute == ATTRIBUTE_P2P_TOKENS)
		return no_share_of_slab();
	r = DRIVER_CALL(route.real, CUresult(*)(void *, CUpointer_attribute, CUdeviceptr),
			(data, attribute, whom == GONE ? NOWHERE : address));
	if (r == CUDA_SUCCESS && whom == LIVE)
		correct(&place, attribute, data);
	if (r == CUDA_SUCCESS && whom == GONE)
		give_back(attribute, data, address);
	return r;
}
CUDA_HAND(cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, CUdeviceptr ptr),
	  (route, data, attribute, ptr))

static CUresult body_cuPointerGetAttributes(struct route route, unsigned int count,
					    CUpointer_attribute *attributes, void **data,
					    CUdeviceptr address)
{
	struct pool_place place;
	enum whose whom = whose(route, address, &place);
	CUresult r =
		DRIVER_CALL(route.real,
			    CUresult(*)(unsigned int, CUpointer_attribute *, void **, CUdeviceptr),
			    (count, attributes, data, whom == GONE ? NOWHERE : address));

	for (unsigned int i = 0; r == CUDA_SUCCESS && whom != NOT_OURS && i < count; i++) {
		if (whom == LIVE)
			correct(&place, attributes[i], data[i]);
		else
			give_back(attributes[i], data[i], address);
	}
	return r;
}
CUDA_HAND(cuPointerGetAttributes,
	  (unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
	   CUdeviceptr ptr),
	  (route, numAttributes, attributes, data, ptr))

static CUresult body_cuPointerSetAttribute(struct route route, const void *value,
					   CUpointer_attribute attribute, CUdeviceptr address)
{
	struct pool_place place;
	enum whose whom = whose(route, address, &place);
	CUresult r =
		DRIVER_CALL(route.real, CUresult(*)(const void *, CUpointer_attribute, CUdeviceptr),
			    (value, attribute, whom == GONE ? NOWHERE : address));

	if (r == CUDA_SUCCESS && whom == LIVE)
		never_reuse(&place, LEDGER_POOL_SYNC_MEMOPS);
	return r;
}
CUDA_HAND(cuPointerSetAttribute,
	  (const void *value, CUpointer_attribute attribute, CUdeviceptr ptr),
	  (route, value, attribute, ptr))

/* ---- pinned memory ---- */

static void *host_address(struct route route, void *p)
{
	struct pool_place place;

	return whose(route, (uintptr_t)p, &place) == GONE ? (void *)NOWHERE : p;
}

static CUresult body_cuMemHostGetDevicePointer(struct route route, void *address, void *p,
					       unsigned int flags)
{
	return DRIVER_CALL(route.real, CUresult(*)(void *, void *, unsigned int),
			   (address, host_address(route, p), flags));
}
CUDA_HAND(cuMemHostGetDevicePointer, (CUdeviceptr_v1 *pdptr, void *p, unsigned int Flags),
	  (route, pdptr, p, Flags))
#define body_cuMemHostGetDevicePointer_v2 body_cuMemHostGetDevicePointer
CUDA_HAND(cuMemHostGetDevicePointer_v2, (CUdeviceptr *pdptr, void *p, unsigned int Flags),
	  (route, pdptr, p, Flags))

static CUresult body_cuMemHostGetFlags(struct route route, unsigned int *flags, void *p)
{
	return DRIVER_CALL(route.real, CUresult(*)(unsigned int *, void *),
			   (flags, host_address(route, p)));
}
CUDA_HAND(cuMemHostGetFlags, (unsigned int *pFlags, void *p), (route, pFlags, p))

/* ---- memory shared with other processes and devices ---- */

CUresult pool_ipc_handle(struct route route, CUipcMemHandle *handle, CUdeviceptr address)
{
	struct pool_place place;
	enum whose whom = whose(route, address, &place);
	CUresult r;

	if (whom == LIVE && !place.whole)
		return no_share_of_slab();
	r = DRIVER_CALL(route.real, CUresult(*)(CUipcMemHandle *, CUdeviceptr),
			(handle, whom == GONE ? NOWHERE : address));
	if (r == CUDA_SUCCESS && whom == LIVE) {
		never_reuse(&place, LEDGER_POOL_EXPORTED);
		no_share_of_slab();
	}
	return r;
}

static CUresult body_cuMemGetHandleForAddressRange(struct route route, void *handle,
						   CUdeviceptr address, size_t size,
						   CUmemRangeHandleType type,
						   unsigned long long flags)
{
	struct pool_place place;
	enum whose whom = whose(route, address, &place);
	CUresult r = DRIVER_CALL(route.real,
				 CUresult(*)(void *, CUdeviceptr, size_t, CUmemRangeHandleType,
					     unsigned long long),
				 (handle, whom == GONE ? NOWHERE : address, size, type, flags));

	if (r == CUDA_SUCCESS && whom == LIVE)
		never_reuse(&place, LEDGER_POOL_EXPORTED);
	return r;
}
CUDA_HAND(cuMemGetHandleForAddressRange,
	  (void *handle, CUdeviceptr dptr, size_t size, CUmemRangeHandleType handleType,
	   unsigned long long flags),
	  (route, handle, dptr, size, handleType, flags))

/* ---- advice: only managed memory accepts it, and it persists ---- */

static CUresult body_cuMemAdvise(struct route route, CUdeviceptr address, size_t count,
				 CUmem_advise advice, CUdevice device)
{
	struct pool_place place;
	enum whose whom = whose(route, address, &place);
	CUresult r =
		DRIVER_CALL(route.real, CUresult(*)(CUdeviceptr, size_t, CUmem_advise, CUdevice),
			    (whom == GONE ? NOWHERE : address, count, advice, device));

	if (r == CUDA_SUCCESS && whom == LIVE)
		never_reuse(&place, LEDGER_POOL_SYNC_MEMOPS);
	return r;
}
CUDA_HAND(cuMemAdvise, (CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device),
	  (route, devPtr, count, advice, device))

static CUresult body_cuMemAdvise_v2(struct route route, CUdeviceptr address, size_t count,
				    CUmem_advise advice, CUmemLocation location)
{
	struct pool_place place;
	enum whose whom = whose(route, address, &place);
	CUresult r = DRIVER_CALL(route.real,
				 CUresult(*)(CUdeviceptr, size_t, CUmem_advise, CUmemLocation),
				 (whom == GONE ? NOWHERE : address, count, advice, location));

	if (r == CUDA_SUCCESS && whom == LIVE)
		never_reuse(&place, LEDGER_POOL_SYNC_MEMOPS);
	return r;
}
CUDA_HAND(cuMemAdvise_v2,
	  (CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location),
	  (route, devPtr, count, advice, location))
