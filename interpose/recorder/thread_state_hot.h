/* SPDX-License-Identifier: MIT
 *
 * Inline functions that each recorded allocation and free runs on its thread's state: its lock, its
 * call sites and its spare slots. thread_state.c has the rare cases, live_bytes.h the live bytes.
 */
#ifndef GPULEAK_THREAD_STATE_HOT_H
#define GPULEAK_THREAD_STATE_HOT_H

#include "interpose/base/hot.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/base/hash.h"

COLD struct ledger_site *site_lookup_slowly(struct recorder *recorder, struct thread_state *state,
					    uint64_t key, uint32_t stack, struct hook *hook,
					    int device);
COLD void slots_refill(struct recorder *recorder, struct thread_state *state);
COLD void slots_shed(struct recorder *recorder, struct thread_state *state);

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

#endif
