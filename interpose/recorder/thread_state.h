/* SPDX-License-Identifier: MIT
 *
 * Per-thread state (struct stripe). Each thread that makes GPU calls has its own call site
 * counters, cache of stacks, spare block slots and live bytes. If there are more threads than
 * states, the remaining threads share stripe 0 under a lock.
 */
#ifndef GPULEAK_STRIPES_H
#define GPULEAK_STRIPES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"
#include "interpose/dispatch/hooks.h"
#include "ledger/lock.h"
#include "interpose/base/ref_table.h"

struct recorder;
struct stack_cache;

#define STRIPES 128 /* maximum; stripe 0 is the shared one */
#define STRIPE_STACKS 1024
#define STRIPE_ROWS 512
#define STRIPE_SPARES_MAX 64

struct stripe {
	struct lock lock; /* only stripe 0's lock is ever taken */
	bool shared;
	unsigned int spares;
	uint32_t spare; /* ref of an unused slot, linked by `next_spare`; or 0 */
	/* clock tick, plus 1, in which another thread was checking the peak */
	uint64_t contended_tick;
	/* Bytes allocated minus bytes freed by this thread. Negative if it frees more than it
	 * allocates. */
	_Atomic int64_t live;
	_Atomic int64_t deferred_bytes; /* part of `live`, see deferred_totals.h */
	/* if `live` exceeds it, the peak must be checked, see stripe_live_add() */
	_Atomic int64_t ceiling;
	struct { uint64_t hash; uint32_t ref; } stacks[STRIPE_STACKS];
	struct { uint64_t key; struct ledger_row *row; } row_cache[STRIPE_ROWS];
	struct ref_table rows; /* all call sites of this state, by the key of row_cache */
	/* set when a thread starts to use this state, see stack_join() */
	struct stack_cache *stack_cache;
} __attribute__((aligned(64)));

struct stripes {
	_Atomic uint64_t taken[STRIPES / 64];
	_Atomic unsigned int highest; /* one more than the highest number ever assigned */
	struct lock peak_lock;
	/* since the last restart by stripes_peak(); the ledger has the peak of the process */
	int64_t peak;
	struct lock spare_lock;
	uint32_t spare; /* slots that threads had too many of, likewise */
	unsigned int count; /* number of mapped elements of `stripe`; fewer under RLIMIT_AS */
	struct stripe stripe[STRIPES];
};

/* Returns a per-thread state for the calling thread. It becomes available again when the thread
 * ends. */
struct stripe *stripe_join(struct recorder *recorder);

/* Functions for call sites, slots and live bytes are in thread_state_hot.h. Their caller has locked
 * STRIPE. */

int64_t stripes_live(struct recorder *recorder);
/* Returns the most bytes that were live at one moment since the last call with RESTART. RESTART:
 * starts a new measurement. */
uint64_t stripes_peak(struct recorder *recorder, bool restart);
/* Updates the peak before a report. */
void stripes_settle(struct recorder *recorder);

#endif
