/* SPDX-License-Identifier: MIT
 *
 * The gate: from a report to a verdict with its reasons in words. Fails closed: what is
 * not known to be clean does not pass. Knows no files and no formats; prints nothing.
 */
#ifndef GPULEAK_REPORT_JUDGE_H
#define GPULEAK_REPORT_JUDGE_H

#include <stddef.h>
#include <stdint.h>

struct report;

/* Also the exit statuses of `gpuleak check` and `gpuleak run --gate`. */
enum judge_verdict {
	JUDGE_CLEAN = 0,
	JUDGE_FAILED = 23,
	JUDGE_NOTHING = 24, /* no ledger: no GPU call was seen */
};

struct judge_input {
	const struct report *report;
	uint64_t max_leaked_bytes; /* 0: not even one block of no bytes */
	int count_caches;          /* what caches hold is as good as leaked */
	/* Sentences about the run for which no gate may pass: a ledger that could not be
	 * read, a suppression file that was missing. */
	const char *const *troubles;
	size_t trouble_count;
};

struct judgement {
	enum judge_verdict verdict;
	/* At least one, also for a clean verdict. Names in them come from ledgers and may
	 * hold any bytes: see escape.h. */
	char **reasons;
	size_t reason_count;
};

/* Fills *RET, to be finished by the caller. 0, or -ENOMEM: reasons may be missing, and the
 * verdict is FAILED. */
int judge(const struct judge_input *input, struct judgement *ret);

/* "gate failed: ", "gate passed: ", "gate has nothing to judge: " */
const char *judge_prefix(enum judge_verdict verdict);

void judgement_finish(struct judgement *judgement);

#endif
