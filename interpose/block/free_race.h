/* SPDX-License-Identifier: MIT
 *
 * Frees of one block at one moment; for blocks.c, which asks while it settles a free. All may be
 * called by any thread that has entered RECORDER, with no lock of the table held.
 */
#ifndef GPULEAK_RIVALS_H
#define GPULEAK_RIVALS_H

#include "interpose/block/error_record.h"
#include "interpose/base/hot.h"

/* A free of a block that another call had just taken out of the table. */
struct rival {
	enum { RIVAL_NONE, RIVAL_RUNS, RIVAL_WON, RIVAL_MAY_WIN } state;
	bool counted; /* its success, among those of unknown blocks */
	uint64_t key;
	uint64_t seen_ns;   /* when its block was gone: the other call had begun by then */
	struct past ending; /* of the block, by this call */
	/* Where it may still win: the call that was refused, and its block, in the table again. */
	struct wrong_free lost; /* without a hook: what was wrong with that is told */
	struct ledger_block *block;
};

#define RIVALS 32 /* more at one moment are not told apart */
struct rivals {
	struct lock lock;
	struct rival rival[RIVALS];
};

/* FREEING, which ENDING tells of, found its block taken out: by a call that ended, or by one that
 * is under way. */
COLD void rivals_begin(struct recorder *recorder, struct freeing *freeing,
		       const struct past *ending);
/* Its answer. True: it ended a block that was put back meanwhile. COUNTS: if not, a success will be
 * counted as one of a block that is not known. */
bool rivals_end(struct recorder *recorder, const struct freeing *freeing, bool done, bool counts);
/* The driver does not know FREEING's block. True: another's call ended it meanwhile, and that is
 * settled and told. */
bool rivals_overtook(struct recorder *recorder, struct hook *hook, const struct freeing *freeing,
		     int result);
/* Otherwise the block was put back, and one that is under way may still turn out to have ended it.
 * HOOK NULL: what was wrong is told already. */
void rivals_refused(struct recorder *recorder, struct hook *hook, const struct freeing *freeing,
		    int result);

#endif
