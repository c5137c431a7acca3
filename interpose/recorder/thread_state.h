/* SPDX-License-Identifier: MIT
 *
 * Per-thread state (struct thread_state). Each thread that makes GPU calls has its own call site
 * counters, cache of stacks, spare block slots and live bytes. State 0 belongs to no thread. If all
 * other states are in use, further threads share state 0, and take its lock.
 */
#ifndef GPULEAK_THREAD_STATE_H
#define GPULEAK_THREAD_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"
#include "interpose/recorder/memories.h"
#include "interpose/dispatch/hooks.h"
#include "ledger/lock.h"
#include "interpose/base/ref_table.h"

struct recorder;
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

/* Functions for call sites and slots are in thread_state_hot.h. Their callers hold STATE's lock. */

#endif
