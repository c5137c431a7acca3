/* SPDX-License-Identifier: MIT
 *
 * Repeats a call that failed for lack of memory, after the pool returned cached memory to the
 * driver.
 */
#ifndef GPULEAK_POOL_RETRY_H
#define GPULEAK_POOL_RETRY_H

#include "interpose/block/limit.h"
#include "interpose/cuda/pool/pool.h"

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
