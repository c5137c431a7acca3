/* SPDX-License-Identifier: MIT
 *
 * What threads do not share: each thread that makes GPU calls has a stripe of its own
 * with its row counters, its cache of stacks, its spare block slots and its part of the
 * live bytes. When more threads than stripes exist, the rest share stripe 0 under a lock.
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

#define STRIPES 128 /* at most; stripe 0 is the shared one */
#define STRIPE_STACKS 1024
#define STRIPE_ROWS 512
#define STRIPE_SPARES_MAX 64

struct stripe {
	struct lock lock; /* only stripe 0's is ever taken */
	bool shared;
	unsigned int spares;
	struct ledger_block *spare;  /* linked by `next_spare` */
	uint64_t contended_tick; /* time, plus 1, when another thread was looking at the peak */
	/* Live bytes of this stripe's doings; negative when it frees what others allocate. */
	_Atomic int64_t live;
	_Atomic int64_t deferred_bytes; /* of those bytes: see deferred_totals.h */
	_Atomic int64_t ceiling; /* above it the peak must be looked at, see stripe_live_add */
	struct { uint64_t hash; uint32_t ref; } stacks[STRIPE_STACKS];
	struct { uint64_t key; struct ledger_row *row; } row_cache[STRIPE_ROWS];
	struct ref_table rows; /* all, by the key of row_cache */
	struct stack_cache *stack_cache; /* set when a thread joins, see stack_join() */
} __attribute__((aligned(64)));

struct stripes {
	_Atomic uint64_t taken[STRIPES / 64];
	_Atomic unsigned int highest; /* one past the highest number ever taken */
	struct lock peak_lock;
	int64_t peak; /* since stripes_peak() began anew; the ledger's is that of the process */
	struct lock spare_lock;
	struct ledger_block *spare; /* slots that stripes had too many of */
	unsigned int count; /* of those below that are mapped: fewer under a limit */
	struct stripe stripe[STRIPES];
};

/* A stripe for the calling thread; given back when the thread ends. */
struct stripe *stripe_join(struct recorder *recorder);

static inline void stripe_lock(struct stripe *stripe)
{
	if (__builtin_expect(stripe->shared, 0))
		lock_take(&stripe->lock);
}

static inline void stripe_unlock(struct stripe *stripe)
{
	if (__builtin_expect(stripe->shared, 0))
		lock_give(&stripe->lock);
}

/* Rows, slots and live bytes, with the stripe locked: thread_state_hot.h. */

int64_t stripes_live(struct recorder *recorder);
/* Most bytes live at one moment since this was last asked to RESTART; with it, begins anew. */
uint64_t stripes_peak(struct recorder *recorder, bool restart);
/* Looks at the peak once more; before a report. */
void stripes_settle(struct recorder *recorder);

/* CLOCK_MONOTONIC_COARSE in ns since the ledger's start. */
uint64_t stripes_now(const struct recorder *recorder);

#endif
