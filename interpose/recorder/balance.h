/* SPDX-License-Identifier: MIT
 *
 * Keeps for each call site what it had live at the last peak: see struct ledger_balance. Inline,
 * because each recorded allocation and free runs it. Any thread may call these functions. Must not
 * allocate or wait.
 */
#ifndef GPULEAK_BALANCE_H
#define GPULEAK_BALANCE_H

#include "interpose/base/hot.h"
#include "ledger/shared.h"
#include "ledger/writer.h"

/* Returns true if BALANCE has not kept its amounts at the peak with number PEAK. */
static HOT bool balance_is_due(const struct ledger_balance *balance, uint32_t peak)
{
	uint32_t kept = atomic_load_explicit(&SHARED(balance->peak), memory_order_relaxed);

	return __builtin_expect(kept != peak, 0) && (int32_t)(peak - kept) > 0;
}

static inline void balance_keep(struct ledger_balance *balance, uint32_t peak)
{
	atomic_store_explicit(&SHARED(balance->peak_bytes),
			      atomic_load_explicit(&SHARED(balance->bytes), memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit(&SHARED(balance->peak_blocks),
			      atomic_load_explicit(&SHARED(balance->blocks), memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit(&SHARED(balance->peak), peak, memory_order_release);
}

/* Locking: the caller holds the lock of the per-thread state that has the call site. Adds to what
 * is live. PEAK: number of the last peak of the memory. */
static HOT void balance_add(struct ledger_balance *balance, uint32_t peak, int64_t bytes,
			    int32_t blocks)
{
	if (balance_is_due(balance, peak))
		balance_keep(balance, peak);
	atomic_store_explicit(&SHARED(balance->bytes), balance->bytes + (uint64_t)bytes,
			      memory_order_release);
	atomic_store_explicit(&SHARED(balance->blocks), balance->blocks + (uint32_t)blocks,
			      memory_order_relaxed);
}

/* The same for the balance that several threads change. If two threads do so just after a peak, one
 * of the changes may count as before it. */
static inline void balance_add_others(struct ledger_balance *balance, uint32_t peak, int64_t bytes,
				      int32_t blocks)
{
	if (balance_is_due(balance, peak) &&
	    !atomic_exchange_explicit(&SHARED(balance->busy), 1, memory_order_acquire)) {
		if (balance_is_due(balance, peak))
			balance_keep(balance, peak);
		atomic_store_explicit(&SHARED(balance->busy), 0, memory_order_release);
	}
	atomic_fetch_add_explicit(&SHARED(balance->bytes), (uint64_t)bytes, memory_order_release);
	atomic_fetch_add_explicit(&SHARED(balance->blocks), (uint32_t)blocks,
				  memory_order_relaxed);
}

#endif
