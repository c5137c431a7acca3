/* SPDX-License-Identifier: MIT
 *
 * The pool of CUDA memory, for the wrappers. When the application frees a native block (one that
 * the driver allocated), the pool caches the whole block and reuses it; docs/guides/pool.md has the
 * rules. Any thread may call any function at any time, also in a signal handler, with no lock held.
 * While the pool is off, each function returns false or 0 at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/block/blocks.h"
#include "interpose/block/limit.h"
#include "interpose/block/pool_counters.h"
#include "interpose/cuda/cuda_types.h"

/* The pooled block around an address. */
struct pool_place {
	uint64_t address; /* that the application has */
	uint64_t bytes;   /* that the application requested */
	uint64_t context; /* that owns the memory */
	int device;
	bool live;  /* false: the application freed it, and the pool caches it */
	bool whole; /* a native block; false: a part of a slab */
};

/* Stores the block around ADDRESS, live or cached. If ADDRESS lies in the unused space of a slab,
 * stores a place of 0 bytes that is not live. Returns false if ADDRESS is not the pool's. May take
 * the lock of a struct pool_space. */
bool pool_lookup(uint64_t address, struct pool_place *ret);

/* Marks the live block at ADDRESS: when the application frees it, the pool returns it to the driver
 * instead of reusing it. Call when another process or device may use the block without a fence
 * (IPC, dma-buf). Also call when the block has an attribute that its next owner must not
 * inherit. */
void pool_never_reuse(uint64_t address, enum ledger_pool_reason why);
/* Turns slabs off. Call before memory is shared with another process. */
void pool_no_slabs(void);

/* Returns the bytes of DEVICE that the pool caches: to the application they are free. */
uint64_t pool_unused_bytes(int device);

/* Call after an allocation failed for lack of memory. Returns cached memory of DEVICE to the
 * driver; DEVICE -1: of every device. Returns true if the allocation should be repeated. */
bool pool_relieve(int device);
/* Returns all cached memory to the driver. The result is the number of bytes. Waits for the device
 * as the driver's own free does. */
uint64_t pool_return_all(void);

/* Call these before and after a driver call that ends CONTEXT. Before the call, pooling stops in
 * CONTEXT. After it, the blocks are dropped if GONE; otherwise pooling continues. */
void pool_context_ending(uint64_t context);
void pool_context_ended(uint64_t context, bool gone);

/* Call after a successful wait for all work of CONTEXT that was submitted before EPOCH:
 * submits_epoch(), read before the wait. */
void pool_context_idle(uint64_t context, uint64_t epoch);

/* Adds the threads' counters to the ledger. Call before a report. */
void pool_publish_all(void);

/* ---- the driver's calls that the pool can serve, and calls that are repeated after the pool
 * returned cached memory to the driver ---- */

/* The pool's versions of the driver's calls of these names. If the pool cannot serve a call, it
 * calls CALL->driver. If the pool served an allocation, CALL->hint identifies the block. After an
 * allocation or a free that the pool served, CALL is inside the recorder (call_leave() leaves it).
 * FREEING: see record_freeing_pooled(). */
CUresult pool_cuMemAlloc_v2(struct call *call, CUdeviceptr *address, size_t bytes);
CUresult pool_cuMemHostAlloc(struct call *call, void **pointer, size_t bytes, unsigned int flags);
CUresult pool_cuMemAllocHost_v2(struct call *call, void **pointer, size_t bytes);
CUresult pool_cuMemFree_v2(struct call *call, const struct freeing *freeing, CUdeviceptr address);
CUresult pool_cuMemFreeHost(struct call *call, const struct freeing *freeing, void *pointer);
CUresult pool_cuMemFreeAsync(struct call *call, const struct freeing *freeing, CUdeviceptr address,
			     CUstream stream);
#define pool_cuMemFreeAsync_ptsz pool_cuMemFreeAsync

/* Returns the hint of the pooled block of RECORDER that begins at ADDRESS, live or not, or NULL.
 * Takes no lock. */
struct block_hint *pool_block_hint(struct recorder *recorder, uint64_t address);

/* Returns cached memory to the driver if a signal requested that. With MAY_WAIT, waits as the
 * driver's free does. */
void pool_trim_now(bool may_wait);

/* If the pool may serve CALL, stores REAL, the driver's function, in CALL->driver. The pool serves
 * no call that the driver makes inside another call. MAY_WAIT: see pool_trim_now(). */
static HOT void pool_may_serve(struct call *call, void *real, bool may_wait)
{
	if (!__builtin_expect(atomic_load_explicit(&pool_on, memory_order_relaxed), 0) ||
	    thread_self.call_frame)
		return;
	if (__builtin_expect(atomic_load_explicit(&pool_wants_trim, memory_order_relaxed), 0))
		pool_trim_now(may_wait);
	call->driver = real;
}

/* Returns true if the pool returned memory of DEVICE, which may be LIMITS_CURRENT, to the
 * driver. */
bool pool_relieved(int device);

/* Returns true if an allocating call that returned R should be repeated. */
#define POOL_AGAIN(r, device)                                                                \
	(__builtin_expect((r) == CUDA_ERROR_OUT_OF_MEMORY, 0) &&                             \
	 atomic_load_explicit(&pool_on, memory_order_relaxed) && pool_relieved(device))

#define POOL_TRY(call, device)                                                               \
	({                                                                                   \
		CUresult tried = (call);                                                     \
		if (POOL_AGAIN(tried, (device)))                                             \
			tried = (call);                                                      \
		tried;                                                                       \
	})
