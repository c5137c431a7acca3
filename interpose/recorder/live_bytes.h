/* SPDX-License-Identifier: MIT
 *
 * Counts the live bytes of call sites, memories (memories.h) and threads, and keeps for each call
 * site what it had live at the last peak: see struct ledger_balance. Inline, because each recorded
 * allocation and free runs it. Must not allocate or wait.
 */
#ifndef GPULEAK_LIVE_BYTES_H
#define GPULEAK_LIVE_BYTES_H

#include "interpose/base/hot.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "ledger/shared.h"

/* ---- balances ---- */

/* A balance has live bytes and blocks of a call site, and what they were at the last peak. The
 * first function returns the balance of SITE that the thread with SITE's state changes. The second
 * returns the one that all other threads change. What SITE has live is the sum of both. */
static inline struct ledger_balance *balance_of(struct ledger_site *site)
{
	return (struct ledger_balance *)((uint8_t *)site - LEDGER_CHUNK);
}

static inline struct ledger_balance *balance_of_others(struct ledger_site *site)
{
	return (struct ledger_balance *)((uint8_t *)site - 2 * LEDGER_CHUNK);
}

/* Returns true if BALANCE has not stored yet what was live at the peak with number PEAK. */
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

/* Locking: the caller holds the lock of the per-thread state that has the call site. Adds BYTES and
 * BLOCKS to BALANCE; both may be negative. PEAK: number of the last peak of the memory that the
 * blocks lie in. */
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

/* The same for the balance that several threads change. If two threads change it just after a peak,
 * one of the changes may be counted as made before the peak. */
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

/* ---- live bytes ---- */

COLD void live_bytes_check_peak(struct recorder *recorder, struct thread_state *state,
				uint32_t memory, uint64_t now_ns);

/* Locking: the caller holds STATE's lock. Adds BYTES and BLOCKS to what SITE has live; both may be
 * negative. SITE may belong to another state. Returns STATE's part of the memory that SITE's blocks
 * lie in. */
static HOT struct memory_part *balance_change(struct thread_state *state, struct ledger_site *site,
					      int64_t bytes, int32_t blocks)
{
	struct ledger_balance *others = balance_of_others(site);
	struct memory_part *part = &state->memories[others->memory];
	uint32_t peak = atomic_load_explicit(&part->peak, memory_order_relaxed);

	if (__builtin_expect(others->thread_state == state->number, 1))
		balance_add(balance_of(site), peak, bytes, blocks);
	else
		balance_add_others(others, peak, bytes, blocks);
	return part;
}

/* Returns true if there may be a new peak of all memories together, or of PART's memory. */
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
	struct ledger_balance *balance = balance_of(site);
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

int64_t live_bytes_total(struct recorder *recorder);
/* Returns the largest number of bytes that were live at one moment since the last call with
 * RESTART, or since the start. RESTART: starts a new measurement. */
uint64_t live_bytes_peak(struct recorder *recorder, bool restart);
/* From now on stores in *AT the largest number of bytes that are live at one moment, unless *AT is
 * larger. AT is a field of the ledger. Ends the measurement that the previous call began. AT NULL:
 * only ends it. */
void live_bytes_watch_peak(struct recorder *recorder, uint64_t *at);
/* Updates the peaks before a report. */
void live_bytes_settle_peak(struct recorder *recorder);
/* Moves BYTES from what the call site FROM has live to the call site TO: another block owns the
 * memory now. */
void live_bytes_move(struct ledger_site *from, struct ledger_site *to, uint64_t bytes);

#endif
