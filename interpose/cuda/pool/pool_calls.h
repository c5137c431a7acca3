/* SPDX-License-Identifier: MIT
 *
 * How a wrapper calls the pool: which of the driver's calls the pool replaces.
 */
#ifndef GPULEAK_POOL_CALLS_H
#define GPULEAK_POOL_CALLS_H

#include "interpose/cuda/pool/pool.h"
#include "interpose/cuda/pool/pool_signal.h"
#include "interpose/recorder/recorder.h"
#include "interpose/dispatch/resolve.h"

/* Replacements of the driver's calls of these names. If the pool cannot serve a call, it calls
 * thread_self.pooled, the driver's own function. */
CUresult pool_alloc_device(CUdeviceptr *address, size_t bytes);
CUresult pool_alloc_pinned(void **pointer, size_t bytes, unsigned int flags);
CUresult pool_alloc_pinned_plain(void **pointer, size_t bytes);
CUresult pool_free_device(CUdeviceptr address);
CUresult pool_free_pinned(void *pointer);
CUresult pool_free_async(CUdeviceptr address, CUstream stream);
CUresult pool_free_async_ptsz(CUdeviceptr address, CUstream stream);

/* Returns the hint of the pooled block that begins at ADDRESS, live or not, or NULL. Takes no
 * lock. */
struct standing *pool_block_hint(uint64_t address);

static inline void *pool_replacement(enum hook_id id)
{
	switch (id) {
	case HOOK_cuMemAlloc_v2:
		return (void *)pool_alloc_device;
	case HOOK_cuMemHostAlloc:
		return (void *)pool_alloc_pinned;
	case HOOK_cuMemAllocHost_v2:
		return (void *)pool_alloc_pinned_plain;
	case HOOK_cuMemFree_v2:
		return (void *)pool_free_device;
	case HOOK_cuMemFreeHost:
		return (void *)pool_free_pinned;
	case HOOK_cuMemFreeAsync:
		return (void *)pool_free_async;
	case HOOK_cuMemFreeAsync_ptsz:
		return (void *)pool_free_async_ptsz;
	default:
		return NULL;
	}
}

/* Returns cached memory to the driver if a signal requested that. With MAY_WAIT, waits as the
 * driver's free does. */
void pool_trim_now(bool may_wait);

/* Replaces the driver's function in ROUTE by the pool's, if the pool has one for ID. Returns
 * true if it did. ID is a constant in each wrapper, so other rows compile to nothing. A call
 * from inside a driver's call is not replaced. */
static inline bool pool_reroute(enum hook_id id, struct route *route)
{
	if (!pool_replacement(id) ||
	    !__builtin_expect(atomic_load_explicit(&pool_on, memory_order_relaxed), 0) ||
	    thread_self.call_frame)
		return false;
	if (__builtin_expect(atomic_load_explicit(&pool_wants_trim, memory_order_relaxed), 0))
		pool_trim_now(id == HOOK_cuMemFree_v2 || id == HOOK_cuMemFreeHost);
	thread_self.pooled = route->real;
	route->real = pool_replacement(id);
	return true;
}

#endif
