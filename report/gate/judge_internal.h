/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of the gate only: the list of reasons, and for each leak the part that a
 * baseline does not cover.
 */
#ifndef GPULEAK_REPORT_JUDGE_PARTS_H
#define GPULEAK_REPORT_JUDGE_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/describe/format_place.h"
#include "report/gate/judge.h"

struct report_leak;
struct report_process;
struct report_stack;
struct report_summary;

#define JUDGE_PLACES_MAX 20 /* a rule names at most this many call sites and counts the others */

/* A leak, memory in a cache or an object, and the part that the baseline does not cover. */
struct charge {
	const struct report_leak *leak;
	uint64_t fingerprint;
	uint64_t bytes;
	uint64_t blocks;
	bool covered; /* a budget covers it, so --max-leaked-bytes does not apply */
};

struct charges {
	struct charge *list;
	size_t count;
};

/* The sum of charges, and the place of the largest. */
struct spent {
	uint64_t bytes, blocks;
	const struct report_stack *largest; /* NULL: nothing was added */
	uint64_t largest_bytes;
};

struct bench {
	struct judgement *judgement;
	struct charges memory;  /* all leaks and cached memory of all processes */
	struct charges objects; /* all objects that no suppression matches */
	/* Suballocations that accumulate: the sums of those that no option of the gate counts, and
	 * the number of places at which --gate-accumulation counts some. */
	uint64_t accumulating_blocks, accumulating_bytes;
	const char *accumulating_cache; /* the pool of one of those in the sums */
	size_t accumulating_places;
};

/* Add a reason for failure, or a note, which does not make the gate fail. */
void judge_reason(struct bench *bench, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void judge_note(struct bench *bench, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Adds BYTES and BLOCKS at STACK to SPENT. */
void judge_spend(struct spent *spent, uint64_t bytes, uint64_t blocks,
		 const struct report_stack *stack);

/* Subtracts known leaks from the charges. Adds a note for each known leak that no longer occurs. */
void judge_baseline(struct bench *bench, const struct judge_input *input);
/* Adds a reason for each leak that is new or larger than in the baseline. */
void judge_beyond_baseline(struct bench *bench, const struct judge_input *input);

/* Adds a reason for each exceeded budget, except those of objects. Sets `covered` in the charges to
 * which a budget applies. */
void judge_budgets(struct bench *bench, const struct judge_input *input);

/* Adds a reason for each place where more accumulates than --gate-accumulation or --max-growth
 * allows. Leaves out what the baseline or a budget covers. Adds what no option counts to the sums
 * in BENCH. */
void judge_accumulation(struct bench *bench, const struct judge_input *input);
/* Mentions these sums: as a reason if the gate PASSED, else as a note. */
void judge_mention_accumulation(struct bench *bench, bool passed);

/* Adds a reason for each exceeded budget of objects. If INPUT requests it, adds a reason for each
 * other kind of which objects are left. */
void judge_objects(struct bench *bench, const struct judge_input *input);

/* Adds a reason for each call site that the policy of --only-at does not allow. */
void judge_sites(struct bench *bench, const struct judge_input *input);

#endif
