/* SPDX-License-Identifier: MIT
 *
 * GPULEAK_POOL_SIGNAL: a wish that comes as a signal (signals.c) and is granted by the next
 * GPU memory call of any thread, or by the helper thread where none comes for a while.
 */
#ifndef GPULEAK_POOL_SIGNAL_H
#define GPULEAK_POOL_SIGNAL_H

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic bool pool_wants_trim;

/* Whether the signal came: then who asks must give back. One load while it has not. */
static inline bool pool_trim_due(void)
{
	return __builtin_expect(atomic_load_explicit(&pool_wants_trim, memory_order_relaxed), 0) &&
	       atomic_exchange_explicit(&pool_wants_trim, false, memory_order_relaxed);
}

#endif
