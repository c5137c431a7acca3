/* SPDX-License-Identifier: MIT
 *
 * Per-thread state (struct thread_state). Each thread that makes GPU calls has its own call site
 * counters, cache of stacks, spare block slots and live bytes. State 0 belongs to no thread. If all
 * other states are in use, further threads share state 0, and take its lock.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/hash.h"
#include "interpose/base/ref_table.h"
#include "interpose/recorder/memories.h"
#include "interpose/recorder/named_ranges.h"
#include "interpose/recorder/recorder.h"

struct stack_cache;

/* at most: 127 that belong to one thread each, and state 0, which further threads share */
#define THREAD_STATES 128
#define THREAD_STATE_STACKS 1024
#define THREAD_STATE_SITES 512
#define THREAD_STATE_SLOTS_MAX 64

struct thread_state {
	struct lock lock; /* only state 0's lock is ever taken */
	bool shared;
	unsigned int spares; /* number of unused slots in the list `spare` */
	/* suballocations that header->suballocated does not count yet */
	unsigned int uncounted_suballocations;
	uint32_t spare; /* ref of an unused slot, linked by `next_spare`; or 0 */
	/* clock tick, plus 1, in which another thread was checking the peak */
	uint64_t contended_tick;
	/* Bytes allocated minus bytes freed by this thread. Negative if it frees more than it
	 * allocates. */
	_Atomic int64_t live;
	_Atomic int64_t deferred_bytes; /* bytes of deferred frees: see deferred_totals.h */
	/* if `live` exceeds it, the peak must be checked, see live_bytes_add() */
	_Atomic int64_t ceiling;
	uint32_t number; /* index of this state */
	_Atomic(struct thread *) owner; /* NULL: none, or several threads */
	struct { uint64_t hash; uint32_t ref; } stacks[THREAD_STATE_STACKS];
	struct { uint64_t key; struct ledger_site *site; } site_cache[THREAD_STATE_SITES];
	struct ref_table sites; /* all call sites of this state, by the key of site_cache */
	/* set when a thread starts to use this state, see stack_cache_join() */
	struct stack_cache *stack_cache;
	struct memory_part memories[MEMORY_NUMBERS]; /* see memories.h */
} __attribute__((aligned(64)));

struct thread_states {
	_Atomic uint64_t taken[THREAD_STATES / 64];
	_Atomic unsigned int highest; /* highest index of a state that a thread ever had, plus 1 */
	struct lock peak_lock;
	/* peak of all live bytes since the last restart by live_bytes_peak(); the ledger has the
	 * peak of the process */
	int64_t peak;
	/* peak of all live bytes since live_bytes_watch_peak(); before its first call: since the
	 * start */
	int64_t watched_peak;
	uint64_t *watched_peak_at; /* in the ledger; NULL: not watched */
	/* A peak of alarm_bytes or more, at alarm_ns or later, sets CHECK_PEAK. 0: none does */
	_Atomic uint64_t alarm_bytes, alarm_ns;
	uint32_t memory_count; /* guarded by peak_lock, like `memories` */
	struct memory_peak memories[MEMORY_NUMBERS]; /* see memories.h */
	struct memory_suballocations suballocations[MEMORY_NUMBERS];
	struct lock spare_lock;
	/* ref of an unused slot that any thread may take, linked by `next_spare`; or 0 */
	uint32_t spare;
	unsigned int count; /* number of mapped elements of `state`; fewer under RLIMIT_AS */
	struct thread_state state[THREAD_STATES];
};

/* Returns a per-thread state for the calling thread. It becomes available again when the thread
 * ends. */
struct thread_state *thread_state_join(struct recorder *recorder);

/* Returns true if a thread with a state of its own is inside gpuleak. It may leave at any time. */
bool thread_states_busy(const struct recorder *recorder);

/* ---- what each recorded allocation and free runs on its thread's state: its lock, its call sites,
 * its spare slots and its live bytes. thread_state.c and live_bytes.c have the rare cases. Callers
 * of functions for call sites and slots hold STATE's lock. ---- */

COLD struct ledger_site *site_lookup_slowly(struct recorder *recorder, struct thread_state *state,
					    uint64_t key, uint32_t stack, struct hook *hook,
					    int device);
COLD void slots_refill(struct recorder *recorder, struct thread_state *state);
COLD void slots_shed(struct recorder *recorder, struct thread_state *state);
/* Locking: the caller holds STATE's lock. Updates the peak of MEMORY and the peak of all memories,
 * at NOW_NS, if there is a new one. */
COLD void live_bytes_check_peak(struct recorder *recorder, struct thread_state *state,
				uint32_t memory, uint64_t now_ns);

/* ---- the lock ---- */

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

/* ---- call sites ---- */

static inline unsigned int site_cache_index(uint64_t key)
{
	return (unsigned int)(TABLE_MIX(key) >> 48) % THREAD_STATE_SITES;
}

/* The parts of a call site's key below the stack: the range, the hook and the device, which has 9
 * bits. Some OpenCL platforms have many devices, but none has 500. */
#define SITE_HOOK_BITS 11
#define SITE_DEVICE_BITS 9
_Static_assert(HOOK_TOTAL < 1 << SITE_HOOK_BITS, "a key has room for each hook");
_Static_assert(LEDGER_RANGE_OTHER < 1 << (32 - SITE_HOOK_BITS - SITE_DEVICE_BITS),
	       "a key has room for each range");

/* Returns the range of the thread that waits, if only one waits and STACK is that of a thread that
 * works for it; else 0. */
COLD uint32_t site_waiting_range(struct recorder *recorder, uint32_t stack);

/* Returns the range for an allocation of the calling thread at STACK. */
static HOT uint32_t site_range(struct recorder *recorder, uint32_t stack)
{
	uint32_t range = range_now();

	if (__builtin_expect(!range && atomic_load_explicit(&recorder->waiting,
							    memory_order_relaxed), 0))
		range = site_waiting_range(recorder, stack);
	return range;
}

/* Locking: the caller holds STATE's lock. Returns the call site counters of (stack, hook, device)
 * in the range of the calling thread. Creates them if needed. Returns NULL if the ledger is
 * full. */
static HOT struct ledger_site *site_lookup(struct recorder *recorder, struct thread_state *state,
					   uint32_t stack, struct hook *hook, int device)
{
	uint32_t low = site_range(recorder, stack) << (SITE_HOOK_BITS + SITE_DEVICE_BITS) |
		       (uint32_t)(hook - hooks) << SITE_DEVICE_BITS |
		       ((uint32_t)(device + 1) & ((1u << SITE_DEVICE_BITS) - 1));
	uint64_t key = (uint64_t)stack << 32 | low;
	unsigned int slot = site_cache_index(key);

	if (__builtin_expect(state->site_cache[slot].key == key && state->site_cache[slot].site, 1))
		return state->site_cache[slot].site;
	return site_lookup_slowly(recorder, state, key, stack, hook, device);
}

/* ---- spare slots ---- */

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

/* ---- balances: live bytes of call sites, and of each site at the last peak ---- */

/* Each call site has two balances. A balance counts live bytes and live blocks, and keeps the
 * counts of the last peak. Only the thread that has SITE's state changes the first balance. All
 * other threads change the second one. The sum of both is what is live at SITE. */
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
	uint32_t kept = shared_load(balance->peak);

	return __builtin_expect(kept != peak, 0) && (int32_t)(peak - kept) > 0;
}

static inline void balance_keep(struct ledger_balance *balance, uint32_t peak)
{
	shared_store(balance->peak_bytes, shared_load(balance->bytes));
	shared_store(balance->peak_blocks, shared_load(balance->blocks));
	shared_publish(balance->peak, peak);
}

/* Locking: BALANCE's call site belongs to a per-thread state, and the caller holds that state's
 * lock. Adds BYTES and BLOCKS to BALANCE; both may be negative. PEAK is the number of the last peak
 * of the memory that has the blocks. */
static HOT void balance_add(struct ledger_balance *balance, uint32_t peak, int64_t bytes,
			    int32_t blocks)
{
	if (balance_is_due(balance, peak))
		balance_keep(balance, peak);
	shared_publish(balance->bytes, balance->bytes + (uint64_t)bytes);
	shared_store(balance->blocks, balance->blocks + (uint32_t)blocks);
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
		shared_publish(balance->busy, 0);
	}
	atomic_fetch_add_explicit(&SHARED(balance->bytes), (uint64_t)bytes, memory_order_release);
	shared_add(balance->blocks, (uint32_t)blocks);
}

/* ---- live bytes ---- */

/* Locking: the caller holds the lock of its thread's state. Adds BYTES to what is live in the range
 * of the call site of BALANCE. */
static HOT void range_change(struct recorder *recorder, const struct ledger_balance *balance,
			     enum ledger_range_memory memory, int64_t bytes)
{
	if (__builtin_expect(balance->range != 0, 0))
		named_range_change(recorder, balance->range, memory, thread_self.state->number,
				   bytes);
}

/* Locking: the caller holds STATE's lock. Adds BYTES and BLOCKS to what SITE has live; both may be
 * negative. SITE may belong to another state. Returns STATE's part of the memory that SITE's blocks
 * lie in. */
static HOT struct memory_part *balance_change(struct recorder *recorder,
					      struct thread_state *state, struct ledger_site *site,
					      int64_t bytes, int32_t blocks)
{
	struct ledger_balance *others = balance_of_others(site);
	struct memory_part *part = &state->memories[others->memory];
	uint32_t peak = atomic_load_explicit(&part->peak, memory_order_relaxed);

	range_change(recorder, others, LEDGER_RANGE_BLOCKS, bytes);
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
 * live bytes at NOW_NS and updates the peaks. If several threads allocate within one tick of the
 * coarse clock (1-4 ms), a peak may be recorded too low. Otherwise peaks are exact. */
static HOT void live_bytes_add(struct recorder *recorder, struct thread_state *state,
			       struct ledger_site *site, int64_t bytes, uint64_t now_ns)
{
	struct ledger_balance *balance = balance_of(site);
	struct memory_part *part = &state->memories[balance->memory];

	balance_add(balance, atomic_load_explicit(&part->peak, memory_order_relaxed), bytes, 1);
	range_change(recorder, balance, LEDGER_RANGE_BLOCKS, bytes);
	live_bytes_count(state, part, bytes);
	if (__builtin_expect(bytes > 0 && live_bytes_may_peak(state, part), 0))
		live_bytes_check_peak(recorder, state, balance->memory, now_ns);
}

/* Locking: the caller holds STATE's lock. A block of SITE with BYTES ends. */
static HOT void live_bytes_remove(struct recorder *recorder, struct thread_state *state,
				  struct ledger_site *site, int64_t bytes)
{
	live_bytes_count(state, balance_change(recorder, state, site, -bytes, -1), -bytes);
}
