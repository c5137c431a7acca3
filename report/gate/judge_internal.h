/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of the gate only: the list of reasons, and the part of each leak that
 * still counts.
 */
#ifndef GPULEAK_REPORT_JUDGE_PARTS_H
#define GPULEAK_REPORT_JUDGE_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "report/describe/describe_place.h"
#include "report/gate/judge.h"

struct report_leak;
struct report_process;
struct report_stack;
struct report_summary;

#define JUDGE_PLACES_MAX 20 /* named by one rule; the rest is a number */

/* One leak, or memory in a cache, and the part of it that the baseline does not know. */
struct charge {
	const struct report_leak *leak;
	uint64_t fingerprint;
	uint64_t bytes;
	uint64_t blocks;
	int covered; /* a budget covers it, so --max-leaked-bytes does not apply */
};

struct bench {
	struct judgement *judgement;
	int result; /* 0 or -ENOMEM */
	struct charge *charges; /* of all leaks and caches of all processes */
	size_t charge_count;
};

/* Adds a reason to fail, or a note, which does not fail the gate. */
void judge_reason(struct bench *bench, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void judge_note(struct bench *bench, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* "process 12 (app)", "rank 3 (process 12 of app on node7)" */
const char *judge_who(const struct report_process *process, char ret[DESCRIBE_PLACE_MAX]);

/* Subtracts known leaks from the charges, and notes leaks that are gone. */
void judge_baseline(struct bench *bench, const struct judge_input *input);
/* Adds reasons for leaks that the baseline does not know. */
void judge_beyond_baseline(struct bench *bench, const struct judge_input *input);

/* Adds a reason for each exceeded budget; marks the charges that budgets cover. */
void judge_budgets(struct bench *bench, const struct judge_input *input);

/* Adds a reason for each suspect of P that grows more than allowed, and for missing records. */
void judge_growth(struct bench *bench, const struct judge_input *input,
		  const struct report_process *p);

/* Adds a reason for released memory of P that nothing will free and, if INPUT says so, for memory
 * that is still allocated for an unknown reason. */
void judge_deferred(struct bench *bench, const struct judge_input *input,
		    const struct report_process *p);

/* Adds a reason for each place that no rule of the policy allows. */
void judge_sites(struct bench *bench, const struct judge_input *input);

#endif
