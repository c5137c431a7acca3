/* SPDX-License-Identifier: MIT
 *
 * Inline functions that each recorded allocation and free runs on its thread's state. Used by
 * blocks.c, and by thread_state.c for the rare cases.
 */
#ifndef GPULEAK_THREAD_STATE_HOT_H
#define GPULEAK_THREAD_STATE_HOT_H

#include "interpose/base/hot.h"
#include "interpose/recorder/balance.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/base/hash.h"

COLD struct ledger_site *site_lookup_slowly(struct recorder *recorder, struct thread_state *state,
					    uint64_t key, uint32_t stack, struct hook *hook,
					    int device);
COLD void slots_refill(struct recorder *recorder, struct thread_state *state);
COLD void slots_shed(struct recorder *recorder, struct thread_state *state);
COLD void live_bytes_check_peak(struct recorder *recorder, struct thread_state *state,
				uint32_t memory, uint64_t now_ns);

static HOT void thread_state_lock(struct thread_state *state)
{
	if (__builtin_expect(state->shared, 0))
		lock_take(&state->lock);
}

static HOT void thread_state_unlock(struct thread_state *state)
{
	if (__builtin_expect(state->shared, 0))
		lock_give(&state->lock);
}

static inline unsigned int site_cache_index(uint64_t key)
{
	return (unsigned int)(TABLE_MIX(key) >> 48) % THREAD_STATE_SITES;
}

/* Locking: the caller holds STATE's lock. Returns the call site counters of (stack, hook, device).
 * Creates them if needed. Returns NULL if the ledger is full. */
static HOT struct ledger_site *site_lookup(struct recorder *recorder, struct thread_state *state,
					   uint32_t stack, struct hook *hook, int device)
{
	uint64_t key = (uint64_t)stack << 32 | (uint64_t)(hook - hooks) << 16 |
		       (uint16_t)(device + 1);
	unsigned int slot = site_cache_index(key);

	if (__builtin_expect(state->site_cache[slot].key == key && state->site_cache[slot].site, 1))
		return state->site_cache[slot].site;
	return site_lookup_slowly(recorder, state, key, stack, hook, device);
}

static HOT struct ledger_block *slot_allocate(struct recorder *recorder, struct thread_state *state)
{
	struct ledger_block *block;

	if (__builtin_expect(!state->spare, 0))
		slots_refill(recorder, state);
	if (__builtin_expect(!state->spare, 0))
		return NULL;
	block = ledger_at(&recorder->writer, state->spare);
	state->spare = block->next_spare;
	state->spares--;
	return block;
}

/* Locking: the caller holds STATE's lock. BLOCK, whose ref is REF, is unused. */
static HOT void slot_return(struct recorder *recorder, struct thread_state *state,
			    struct ledger_block *block, uint32_t ref)
{
	/* A reader that still sees the block as live must not see what is written into it after
	 * this. */
	atomic_thread_fence(memory_order_release);
	block->next_spare = state->spare;
	state->spare = ref;
	if (__builtin_expect(++state->spares > THREAD_STATE_SLOTS_MAX, 0))
		slots_shed(recorder, state);
}

/* Locking: the caller holds STATE's lock. Adds to what SITE has live, which may belong to another
 * state. Returns STATE's part of the memory. */
static HOT struct memory_part *balance_change(struct thread_state *state, struct ledger_site *site,
					      int64_t bytes, int32_t blocks)
{
	struct ledger_balance *others = ledger_others_balance(site);
	struct memory_part *part = &state->memories[others->memory];
	uint32_t peak = atomic_load_explicit(&part->peak, memory_order_relaxed);

	if (__builtin_expect(others->thread_state == state->number, 1))
		balance_add(ledger_balance(site), peak, bytes, blocks);
	else
		balance_add_others(others, peak, bytes, blocks);
	return part;
}

/* Returns true if there may be a new peak, of all memory or of PART's. */
static HOT bool live_bytes_may_peak(const struct thread_state *state,
				    const struct memory_part *part)
{
	return atomic_load_explicit(&state->live, memory_order_relaxed) >
		       atomic_load_explicit(&state->ceiling, memory_order_relaxed) ||
	       atomic_load_explicit(&part->live, memory_order_relaxed) >
		       atomic_load_explicit(&part->ceiling, memory_order_relaxed);
}

static HOT void live_bytes_count(struct thread_state *state, struct memory_part *part,
				 int64_t bytes)
{
	atomic_store_explicit(&state->live,
			      atomic_load_explicit(&state->live, memory_order_relaxed) + bytes,
			      memory_order_relaxed);
	atomic_store_explicit(&part->live,
			      atomic_load_explicit(&part->live, memory_order_relaxed) + bytes,
			      memory_order_relaxed);
}

/* Locking: the caller holds STATE's lock, and SITE belongs to STATE. Adds a block of BYTES to the
 * live bytes at NOW_NS and updates the peaks. They are exact, except if several threads allocate
 * within one tick of the coarse clock (1-4 ms). Then they may be too low. */
static HOT void live_bytes_add(struct recorder *recorder, struct thread_state *state,
			       struct ledger_site *site, int64_t bytes, uint64_t now_ns)
{
	struct ledger_balance *balance = ledger_balance(site);
	struct memory_part *part = &state->memories[balance->memory];

	balance_add(balance, atomic_load_explicit(&part->peak, memory_order_relaxed), bytes, 1);
	live_bytes_count(state, part, bytes);
	if (__builtin_expect(bytes > 0 && live_bytes_may_peak(state, part), 0))
		live_bytes_check_peak(recorder, state, balance->memory, now_ns);
}

/* Locking: the caller holds STATE's lock. A block of SITE with BYTES ends. */
static HOT void live_bytes_remove(struct thread_state *state, struct ledger_site *site,
				  int64_t bytes)
{
	live_bytes_count(state, balance_change(state, site, -bytes, -1), -bytes);
}

#endif
