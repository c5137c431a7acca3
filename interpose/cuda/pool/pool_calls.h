/* SPDX-License-Identifier: MIT
 *
 * How a wrapper calls the pool: the driver's calls that the pool can serve, and calls that are
 * repeated after the pool returned cached memory to the driver.
 */
#ifndef GPULEAK_POOL_CALLS_H
#define GPULEAK_POOL_CALLS_H

#include "interpose/block/call.h"
#include "interpose/block/limit.h"
#include "interpose/cuda/pool/pool.h"

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

#endif
