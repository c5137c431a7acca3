/* SPDX-License-Identifier: MIT
 *
 * The gate: derives a verdict and its reasons from a report. Fails unless the report is proven
 * clean. Must not read files, know formats, or print.
 */
#ifndef GPULEAK_REPORT_JUDGE_H
#define GPULEAK_REPORT_JUDGE_H

#include <stdbool.h>
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
	/* Limit for leaks that no budget covers. 0: not even a block of 0 bytes may leak. */
	uint64_t max_leaked_bytes;
	const struct baseline *baseline; /* known leaks; NULL: none */
	const struct budgets *budgets;   /* NULL: none */
	const struct only_at *only_at;   /* places that may allocate; NULL: all. Needs all call
					  * sites */
	int count_caches;          /* count memory in caches as leaked */
	int count_deferred; /* also count deferred frees without a proven reason */
	int growth_wanted; /* also judge growth from step to step */
	uint64_t max_growth; /* bytes per step that each suspect may grow */
	int leaks_unwanted; /* judge only growth and errors: the process may still run, or end
			     * with leaks */
	/* Sentences about problems of the run that fail the gate: a ledger that could not be read,
	 * a missing suppression file. */
	const char *const *troubles;
	size_t trouble_count;
};

struct judgement {
	enum judge_verdict verdict;
	/* At least one, also for a clean verdict. Names in them come from ledgers and may
	 * hold any bytes: see escape.h. */
	char **reasons;
	size_t reason_count;
	/* Remarks that do not fail the gate, such as known leaks that are gone. */
	char **notes;
	size_t note_count;
};

/* Fills *RET, to be finished by the caller. 0, or -ENOMEM: reasons may be missing, and the
 * verdict is FAILED. */
int judge(const struct judge_input *input, struct judgement *ret);

/* Returns true if leaks fail the run: without a JUDGEMENT or with one that is not clean. Invalid
 * frees always fail it. */
bool judgement_fails(const struct judgement *judgement);

/* "gate failed: ", "gate passed: ", "gate has nothing to judge: " */
const char *judge_prefix(enum judge_verdict verdict);

void judgement_finish(struct judgement *judgement);

#endif
