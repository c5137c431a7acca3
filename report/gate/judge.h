/* SPDX-License-Identifier: MIT
 *
 * The gate: from a report to a verdict with its reasons in words. Fails closed: what is
 * not known to be clean does not pass. Knows no files and no formats; prints nothing.
 */
#ifndef GPULEAK_REPORT_JUDGE_H
#define GPULEAK_REPORT_JUDGE_H

#include <stddef.h>
#include <stdint.h>

struct baseline;
struct budgets;
struct only_at;
struct report;

/* Also the exit statuses of `gpuleak check` and `gpuleak run --gate`. */
enum judge_verdict {
	JUDGE_CLEAN = 0,
	JUDGE_FAILED = 23,
	JUDGE_NOTHING = 24, /* no ledger: no GPU call was seen */
};

struct judge_input {
	const struct report *report;
	/* Of what no budget below speaks of. 0: not even one block of no bytes. */
	uint64_t max_leaked_bytes;
	const struct baseline *baseline; /* leaks that are known; NULL: none */
	const struct budgets *budgets;   /* NULL: none */
	const struct only_at *only_at;   /* who may allocate; NULL: everybody. Wants all sites */
	int count_caches;          /* what caches hold is as good as leaked */
	int count_deferred; /* so is released memory that is still there for no proven reason */
	int growth_wanted; /* judge what keeps growing from step to step, too */
	uint64_t max_growth; /* bytes per step that each suspect may grow */
	int leaks_unwanted; /* growth and errors alone: the process may go on, or end with leaks */
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
	/* What whoever cares for the gate should know and what fails nothing: known leaks that
	 * are gone. */
	char **notes;
	size_t note_count;
};

/* Fills *RET, to be finished by the caller. 0, or -ENOMEM: reasons may be missing, and the
 * verdict is FAILED. */
int judge(const struct judge_input *input, struct judgement *ret);

/* Returns true if leaks fail the run: without a JUDGEMENT or with one that is not clean. Invalid
 * frees always fail it. */
int judgement_fails(const struct judgement *judgement);

/* "gate failed: ", "gate passed: ", "gate has nothing to judge: " */
const char *judge_prefix(enum judge_verdict verdict);

void judgement_finish(struct judgement *judgement);

#endif
