/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of the gate only: the input, the reasons, and for each leak the part that a
 * baseline does not cover.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/analyze/leak_totals.h"
#include "report/describe/format_place.h"
#include "report/gate/judge.h"

#define JUDGE_PLACES_MAX 20 /* a rule names at most this many call sites and counts the others */

/* The sum of charges, and the place of the largest. */
struct spent {
	uint64_t bytes, blocks;
	const struct report_stack *largest; /* NULL: nothing was added */
	uint64_t largest_bytes;
};

struct bench {
	const struct judge_input *input;
	struct judgement *judgement;
	/* Leaks, memory in caches, objects, memory that ended with its context, and suballocations
	 * that accumulate; of all but the last, only what the baseline does not cover. */
	struct leak_totals charges;
	/* for each charge: a budget covers it, so --max-leaked-bytes does not apply */
	bool *covered;
	/* Suballocations that accumulate: the sums of those that no option of the gate counts. */
	struct spent accumulating;
	const char *accumulating_cache; /* the pool of one of those in the sums */
};

/* Adds BYTES and BLOCKS at STACK to SPENT. */
void judge_spend(struct spent *spent, uint64_t bytes, uint64_t blocks,
		 const struct report_stack *stack);

/* Subtracts known leaks from the charges. Adds a note for each known leak that no longer occurs. */
void judge_baseline(struct bench *bench);
/* Adds a reason for each leak that is new or larger than in the baseline. */
void judge_beyond_baseline(struct bench *bench);

/* Adds a reason for each exceeded budget, except those of objects. Sets `covered` for the charges
 * to which a budget applies. */
void judge_budgets(struct bench *bench);
/* Adds a reason for each exceeded budget of objects. If the input requests it, adds a reason for
 * each other kind of which objects are left. */
void judge_objects(struct bench *bench);

/* Adds a reason if memory ended with its context, and no baseline and no budget covers it. */
void judge_context_ends(struct bench *bench);
/* If the gate does not count such memory, mentions it in the reason for passing. */
void judge_mention_context_ends(struct bench *bench);

/* Adds a reason for each place where more accumulates than --gate-accumulation or --max-growth
 * allows. Leaves out what the baseline or a budget covers. Adds what no option counts to the sums
 * in BENCH. */
void judge_accumulation(struct bench *bench);
/* Mentions these sums: as a reason if the gate PASSED, else as a note. */
void judge_mention_accumulation(struct bench *bench, bool passed);

/* Adds a reason for each call site that the policy of --only-at does not allow. */
void judge_only_at(struct bench *bench);
