/* SPDX-License-Identifier: MIT
 *
 * Inline functions that each recorded allocation and free runs on its thread's state. Used by
 * blocks.c, and by thread_state.c for the rare cases.
 */
#ifndef GPULEAK_STRIPES_HOT_H
#define GPULEAK_STRIPES_HOT_H

#include "interpose/base/hot.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/base/hash.h"

COLD struct ledger_row *stripe_row_seldom(struct recorder *recorder, struct stripe *stripe,
					  uint64_t key, uint32_t stack, struct hook *hook,
					  int device);
COLD void stripe_refill(struct recorder *recorder, struct stripe *stripe);
COLD void stripe_shed(struct recorder *recorder, struct stripe *stripe);
COLD void stripe_may_be_peak(struct recorder *recorder, struct stripe *stripe, uint64_t now_ns);

static HOT void stripe_lock(struct stripe *stripe)
{
	if (__builtin_expect(stripe->shared, 0))
		lock_take(&stripe->lock);
}

static HOT void stripe_unlock(struct stripe *stripe)
{
	if (__builtin_expect(stripe->shared, 0))
		lock_give(&stripe->lock);
}

static inline unsigned int stripe_row_slot(uint64_t key)
{
	return (unsigned int)(TABLE_MIX(key) >> 48) % STRIPE_ROWS;
}

/* Locking: the caller holds STRIPE's lock. Returns the call site counters of (stack, hook, device).
 * Creates them if needed. Returns NULL if the ledger is full. */
static HOT struct ledger_row *stripe_row(struct recorder *recorder, struct stripe *stripe,
					 uint32_t stack, struct hook *hook, int device)
{
	uint64_t key = (uint64_t)stack << 32 | (uint64_t)(hook - hooks) << 16 |
		       (uint16_t)(device + 1);
	unsigned int slot = stripe_row_slot(key);

	if (__builtin_expect(stripe->row_cache[slot].key == key && stripe->row_cache[slot].row, 1))
		return stripe->row_cache[slot].row;
	return stripe_row_seldom(recorder, stripe, key, stack, hook, device);
}

static HOT struct ledger_block *stripe_take_slot(struct recorder *recorder, struct stripe *stripe)
{
	struct ledger_block *block;

	if (__builtin_expect(!stripe->spare, 0))
		stripe_refill(recorder, stripe);
	if (__builtin_expect(!stripe->spare, 0))
		return NULL;
	block = ledger_at(&recorder->writer, stripe->spare);
	stripe->spare = block->next_spare;
	stripe->spares--;
	return block;
}

/* Locking: the caller holds STRIPE's lock. BLOCK, whose ref is REF, is unused. */
static HOT void stripe_give_slot(struct recorder *recorder, struct stripe *stripe,
				 struct ledger_block *block, uint32_t ref)
{
	/* A reader that still sees the block as live must not see what is written into it after
	 * this. */
	atomic_thread_fence(memory_order_release);
	block->next_spare = stripe->spare;
	stripe->spare = ref;
	if (__builtin_expect(++stripe->spares > STRIPE_SPARES_MAX, 0))
		stripe_shed(recorder, stripe);
}

/* Locking: the caller holds STRIPE's lock. Adds BYTES to the live bytes at NOW_NS and updates the
 * peak. The peak is exact, except if several threads allocate within one tick of the coarse clock
 * (1-4 ms). Then it may be too low. */
static HOT void stripe_live_add(struct recorder *recorder, struct stripe *stripe, int64_t bytes,
				uint64_t now_ns)
{
	int64_t live = atomic_load_explicit(&stripe->live, memory_order_relaxed) + bytes;

	atomic_store_explicit(&stripe->live, live, memory_order_relaxed);
	if (__builtin_expect(bytes > 0 && live > atomic_load_explicit(&stripe->ceiling,
								      memory_order_relaxed),
			     0))
		stripe_may_be_peak(recorder, stripe, now_ns);
}

#endif
