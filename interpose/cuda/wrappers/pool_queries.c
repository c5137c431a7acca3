/* SPDX-License-Identifier: MIT
 *
 * Queries whose results must not show that there is a pool, or a pattern around a block. For a
 * block that the pool caches or the guard holds back, the driver is queried about an unmapped
 * address, so the result is that for a freed block. For a live block, the result has the address
 * and size that the application requested. A block that another process or device may still access,
 * or whose attributes were changed, is not reused. The wrappers do not read any argument that the
 * driver rejected.
 */
#include <string.h>

#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/block/limit.h"
#include "interpose/cuda/pool/pool.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/guard/guard.h"
#include "interpose/guard/pages.h"
#include "interpose/guard/guarded.h"

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

/* A block of the pool or of the guard. */
struct found {
	struct pool_place place;
	/* The driver is queried about this block of its own; 0: about the block itself. */
	uint64_t companion;
};

static bool pooling(void)
{
	return atomic_load_explicit(&pool_on, memory_order_relaxed);
}

static bool find_guarded(uint64_t address, struct found *ret)
{
	struct guard_place guarded;

	if (!guard_find(address, &guarded))
		return false;
	ret->companion = guarded.companion;
	ret->place = (struct pool_place){ guarded.address, guarded.bytes, guarded.context,
					  guarded.device, guarded.live, guarded.first };
	return true;
}

/* Returns NOT_OURS if ADDRESS is not in a block of the pool. Returns LIVE, with the block in *RET,
 * if the application owns the memory there. Returns GONE otherwise. */
static enum whose whose(uint64_t address, struct found *ret)
{
	KEEP_ERRNO;

	ret->companion = 0;
	if (guard_has(GUARD_PATTERNS | GUARD_PAGES) ? !find_guarded(address, ret)
				: !pooling() || !pool_lookup(address, &ret->place))
		return NOT_OURS;
	return ret->place.live && address - ret->place.address < ret->place.bytes ? LIVE : GONE;
}

static void never_reuse(const struct pool_place *place, enum ledger_pool_reason why)
{
	KEEP_ERRNO;

	pool_never_reuse(place->address, why);
}

/* Turns slabs off and returns NOT_SUPPORTED. A part of a slab cannot be shared: the driver could
 * share only the whole slab. A block behind a pattern cannot be shared either. */
static CUresult no_share_of_slab(void)
{
	KEEP_ERRNO;

	if (config.guard) {
		patterns_no_front();
		return CUDA_ERROR_INVALID_VALUE;
	}
	pool_no_slabs();
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- how much is free ---- */

static uint64_t with_unused(uint64_t free, uint64_t total)
{
	KEEP_ERRNO;
	int device;
	uint64_t context;

	cuda_current_context(&context, &device);
	if (device >= 0)
		free += config.guard ? patterns_unseen(device) + pages_unseen(device)
				     : pool_unused_bytes(device);
	return free < total ? free : total;
}

/* Reduces the free BYTES to what the limit still permits the application to allocate. */
static uint64_t within_limit(uint64_t bytes)
{
	uint64_t context, left;
	int device;

	if (!limits_on())
		return bytes;
	cuda_current_context(&context, &device);
	left = limits_left(API_CUDA, device);
	return bytes < left ? bytes : left;
}

/* For cuMemGetInfo and cuMemGetInfo_v2, which differ in the type of the numbers. */
#define INFO(symbol, real, number, free, total)                                             \
	CUresult r = DRIVER(symbol, real)(free, total);                                  \
	number unused, all;                                                                 \
	if (r != CUDA_SUCCESS || !(free))                                                   \
		return r;                                                                   \
	if (pooling() || config.guard) {                                                    \
		if (total)                                                                  \
			all = *(total);                                                     \
		else if (DRIVER(symbol, real)(&unused, &all) != CUDA_SUCCESS)            \
			return r;                                                           \
		*(free) = (number)with_unused(*(free), all);                                \
	}                                                                                   \
	*(free) = (number)within_limit(*(free));                                            \
	return r;

static CUresult info_v2(NO_CALL, void *real, size_t *free, size_t *total)
{
	INFO(cuMemGetInfo_v2, real, size_t, free, total)
}

static CUresult info(NO_CALL, void *real, unsigned int *free, unsigned int *total)
{
	INFO(cuMemGetInfo, real, unsigned int, free, total)
}

/* ---- where a block begins and ends ---- */

/* The address to query the driver about instead of ADDRESS. */
static CUdeviceptr queried(enum whose whom, CUdeviceptr address)
{
	return whom == GONE ? NOWHERE : address;
}

/* The same for a query that describes a block. */
static CUdeviceptr described(enum whose whom, const struct found *found, CUdeviceptr address)
{
	return whom == LIVE && found->companion ? found->companion : queried(whom, address);
}

/* For cuMemGetAddressRange and cuMemGetAddressRange_v2, which differ in types. */
#define RANGE(symbol, real, pointer, number, base, size, address)                           \
	struct found found;                                                                 \
	enum whose whom = whose(address, &found);                                           \
	CUresult r = DRIVER(symbol, real)(base, size,                                       \
					  (pointer)described(whom, &found, address));       \
	if (r == CUDA_SUCCESS && whom == LIVE && (base))                                    \
		*(base) = (pointer)found.place.address;                                     \
	if (r == CUDA_SUCCESS && whom == LIVE && (size))                                    \
		*(size) = (number)found.place.bytes;                                        \
	return r;

static CUresult address_range_v2(NO_CALL, void *real, CUdeviceptr *base, size_t *size,
				 CUdeviceptr address)
{
	RANGE(cuMemGetAddressRange_v2, real, CUdeviceptr, size_t, base, size, address)
}

static CUresult address_range(NO_CALL, void *real, CUdeviceptr_v1 *base,
			      unsigned int *size, CUdeviceptr_v1 address)
{
	RANGE(cuMemGetAddressRange, real, CUdeviceptr_v1, unsigned int, base, size, address)
}

/* ---- attributes ---- */

/* The driver stored ATTRIBUTE of its own block in DATA. Replaces it by the attribute of ADDRESS, in
 * the application's block FOUND. */
static void correct(const struct found *found, CUpointer_attribute attribute, void *data,
		    uint64_t address)
{
	const struct pool_place *place = &found->place;

	if (!data)
		return;
	switch (attribute) {
	case ATTRIBUTE_DEVICE_POINTER:
		if (found->companion)
			memcpy(data, &address, sizeof(address));
		break;
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

static CUresult get_attribute(NO_CALL, void *real, void *data,
			      CUpointer_attribute attribute, CUdeviceptr address)
{
	struct found found;
	enum whose whom = whose(address, &found);
	CUresult r;

	if (whom == LIVE && !found.place.whole && attribute == ATTRIBUTE_P2P_TOKENS)
		return no_share_of_slab();
	r = DRIVER(cuPointerGetAttribute, real)(data, attribute,
						described(whom, &found, address));
	if (r == CUDA_SUCCESS && whom == LIVE)
		correct(&found, attribute, data, address);
	if (r == CUDA_SUCCESS && whom == GONE)
		give_back(attribute, data, address);
	return r;
}

static CUresult get_attributes(NO_CALL, void *real, unsigned int count,
			       CUpointer_attribute *attributes, void **data, CUdeviceptr address)
{
	struct found found;
	enum whose whom = whose(address, &found);
	CUresult r = DRIVER(cuPointerGetAttributes, real)(count, attributes, data,
							  described(whom, &found, address));

	for (unsigned int i = 0; r == CUDA_SUCCESS && whom != NOT_OURS && i < count; i++) {
		if (whom == LIVE)
			correct(&found, attributes[i], data[i], address);
		else
			give_back(attributes[i], data[i], address);
	}
	return r;
}

/* R is the result of a call that changed the block around ADDRESS or made it accessible to others:
 * if it succeeded and the block is live, the pool does not reuse the block, because of WHY. */
#define CHANGE(address, why, r)                                                             \
	struct found found;                                                                 \
	enum whose whom = whose(address, &found);                                           \
	CUresult changed = (r);                                                             \
	if (changed == CUDA_SUCCESS && whom == LIVE)                                        \
		never_reuse(&found.place, why);                                             \
	return changed;

/* Sets ATTRIBUTE of the block at ADDRESS, and of its companion unless that is the same. If the
 * driver can't set it for mapped memory, the application finds it set. */
static CUresult set_both(void *real, const void *value, CUpointer_attribute attribute,
			 CUdeviceptr address, CUdeviceptr companion)
{
	CUresult r = DRIVER(cuPointerSetAttribute, real)(value, attribute, address);

	if (companion != address)
		r = DRIVER(cuPointerSetAttribute, real)(value, attribute, companion);
	return r;
}

static CUresult set_attribute(NO_CALL, void *real, const void *value,
			      CUpointer_attribute attribute, CUdeviceptr address)
{
	CHANGE(address, LEDGER_POOL_SYNC_MEMOPS,
	       set_both(real, value, attribute, queried(whom, address),
			described(whom, &found, address)))
}

/* ---- pinned memory ---- */

static void *host_address(void *p)
{
	struct found found;

	return whose((uintptr_t)p, &found) == GONE ? (void *)NOWHERE : p;
}

#define get_device_pointer(call, real, address, p, flags)                                   \
	DRIVER(cuMemHostGetDevicePointer, real)(address, host_address(p), flags)
#define get_device_pointer_v2(call, real, address, p, flags)                                \
	DRIVER(cuMemHostGetDevicePointer_v2, real)(address, host_address(p), flags)
#define get_flags(call, real, flags, p)                                                     \
	DRIVER(cuMemHostGetFlags, real)(flags, host_address(p))

/* ---- memory shared with other processes and devices ---- */

CUresult pool_ipc_handle(void *real, CUipcMemHandle *handle, CUdeviceptr address)
{
	struct found found;
	enum whose whom = whose(address, &found);
	CUresult r;

	if (whom == LIVE && !found.place.whole)
		return no_share_of_slab();
	r = DRIVER(cuIpcGetMemHandle, real)(handle, queried(whom, address));
	if (r == CUDA_SUCCESS && whom == LIVE) {
		never_reuse(&found.place, LEDGER_POOL_EXPORTED);
		no_share_of_slab();
	}
	return r;
}

static CUresult get_range_handle(NO_CALL, void *real, void *handle, CUdeviceptr address,
				 size_t size, CUmemRangeHandleType type, unsigned long long flags)
{
	CHANGE(address, LEDGER_POOL_EXPORTED,
	       DRIVER(cuMemGetHandleForAddressRange, real)(handle, queried(whom, address), size,
							      type, flags))
}

/* ---- advice: only managed memory accepts it, and it persists ---- */

static CUresult advise(NO_CALL, void *real, CUdeviceptr address, size_t count,
		       CUmem_advise advice, CUdevice device)
{
	CHANGE(address, LEDGER_POOL_SYNC_MEMOPS,
	       DRIVER(cuMemAdvise, real)(queried(whom, address), count, advice, device))
}

static CUresult advise_v2(NO_CALL, void *real, CUdeviceptr address, size_t count,
			  CUmem_advise advice, CUmemLocation location)
{
	CHANGE(address, LEDGER_POOL_SYNC_MEMOPS,
	       DRIVER(cuMemAdvise_v2, real)(queried(whom, address), count, advice, location))
}

#define HAND CUDA_HAND
#define ROWS_OF "interpose/cuda/cuda_queries.def"
#include "interpose/dispatch/hooks.def"
