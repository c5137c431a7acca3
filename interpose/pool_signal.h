/* SPDX-License-Identifier: MIT
 *
 * GPULEAK_POOL_SIGNAL: a wish that comes as a signal and is granted by the next GPU memory
 * call of any thread, since a handler may not call the driver.
 */
#ifndef GPULEAK_POOL_SIGNAL_H
#define GPULEAK_POOL_SIGNAL_H

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic bool pool_wants_trim;

/* Catches the signal, if the application leaves it to its default. At the first GPU call; says
 * so, once, if it can't. */
void pool_signal_start(void);

/* Whether the signal came: then who asks must give back. One load while it has not. */
static inline bool pool_trim_due(void)
{
	return __builtin_expect(atomic_load_explicit(&pool_wants_trim, memory_order_relaxed), 0) &&
	       atomic_exchange_explicit(&pool_wants_trim, false, memory_order_relaxed);
}

#endif
