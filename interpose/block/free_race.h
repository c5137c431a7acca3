/* SPDX-License-Identifier: MIT
 *
 * Two threads that free the same block at the same time, for free.c. Every function may be called
 * by any thread that has entered the recorder and holds no lock of a shard.
 */
#pragma once

#include "interpose/block/error_record.h"
#include "interpose/base/hot.h"

/* A free that found its block already taken out of the table by another free. */
struct free_race {
	enum {
		RACE_NONE,    /* unused */
		RACE_PENDING, /* this free is inside the driver */
		RACE_WON,     /* the driver accepted this free */
		/* the driver refused the other free; this free is still inside the driver */
		RACE_MAY_WIN,
	} state;
	bool counted; /* its success is counted in UNKNOWN_FREES, as one of an unknown block */
	uint64_t key;
	uint64_t seen_ns;   /* when the block was missing: the other free had begun by then */
	struct past ending; /* the end of the block, if this free wins */
	/* In RACE_MAY_WIN: the refused free, and the block that it put back. If `lost.hook` is
	 * NULL, the refusal has an error record already. */
	struct free_error lost;
	struct ledger_block *block;
};

#define FREE_RACES_MAX 32 /* further races at the same time are not resolved */
struct free_races {
	struct lock lock;
	struct free_race race[FREE_RACES_MAX];
};

/* Before the driver's call: FREEING, which ENDING describes, found its block taken out. The other
 * free may have ended or may be inside the driver. */
COLD void free_race_begin(struct recorder *recorder, struct freeing *freeing,
			  const struct past *ending);
/* After the driver's call of a free that began a race. DONE: the driver accepted it. COUNTS: a
 * success without a block will be counted in UNKNOWN_FREES. Returns true if this free ended a block
 * that the other free had put back. */
bool free_race_end(struct recorder *recorder, const struct freeing *freeing, bool done,
		   bool counts);
/* The driver refused FREEING, which had taken its block out. Returns true if another free won the
 * race: then the block is dropped and the double free is recorded. */
bool free_race_was_lost(struct recorder *recorder, struct hook *hook,
			const struct freeing *freeing, int result);
/* The same free, after its block was put back: another free may still be inside the driver and win.
 * HOOK is NULL if the refusal has an error record already. Returns true if there is such a free. */
bool free_race_refused(struct recorder *recorder, struct hook *hook,
		       const struct freeing *freeing, int result);
