/* SPDX-License-Identifier: MIT
 *
 * GPULEAK_POOL_SIGNAL: a signal requests a trim (signals.c). The next GPU memory call of any thread
 * trims the pool. If no such call follows, the service thread does so after a while.
 */
#ifndef GPULEAK_POOL_SIGNAL_H
#define GPULEAK_POOL_SIGNAL_H

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic bool pool_wants_trim;

/* Returns true once after the signal came: then the caller must trim. Costs one load otherwise. */
static inline bool pool_trim_due(void)
{
	return __builtin_expect(atomic_load_explicit(&pool_wants_trim, memory_order_relaxed), 0) &&
	       atomic_exchange_explicit(&pool_wants_trim, false, memory_order_relaxed);
}

#endif
