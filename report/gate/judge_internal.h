/* SPDX-License-Identifier: MIT
 *
 * What the files that judge share, and nobody else may see: the bench on which reasons are
 * collected, and what each leak still has to answer for.
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

/* One leak, or what a cache holds, and how much of it is not known already. */
struct charge {
	const struct report_leak *leak;
	uint64_t fingerprint;
	uint64_t bytes;
	uint64_t blocks;
	int covered; /* a budget speaks of it: the general one does not */
};

struct bench {
	struct judgement *judgement;
	int result; /* 0 or -ENOMEM */
	struct charge *charges; /* of all leaks and caches of all processes */
	size_t charge_count;
};

/* Adds a reason; or a note, which is none. */
void judge_reason(struct bench *bench, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void judge_note(struct bench *bench, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* "process 12 (app)", "rank 3 (process 12 of app on node7)" */
const char *judge_who(const struct report_process *process, char ret[DESCRIBE_PLACE_MAX]);

/* Takes from the charges what the baseline knows; says what is gone. */
void judge_baseline(struct bench *bench, const struct judge_input *input);
/* Reasons that name what the baseline does not know. */
void judge_beyond_baseline(struct bench *bench, const struct judge_input *input);

/* A reason for each budget that is exceeded; marks the charges that budgets speak of. */
void judge_budgets(struct bench *bench, const struct judge_input *input);

/* A reason for each suspect of P that grows more than it may, and where too little is known. */
void judge_growth(struct bench *bench, const struct judge_input *input,
		  const struct report_process *p);

/* A reason for released memory of P that stays for a reason that never ends, and, if it counts,
 * for what is still there for a reason that is not known. */
void judge_deferred(struct bench *bench, const struct judge_input *input,
		    const struct report_process *p);

/* A reason for each place that no rule of the policy allows. */
void judge_sites(struct bench *bench, const struct judge_input *input);

#endif
