/* SPDX-License-Identifier: MIT
 *
 * The input and the result of the gate. The gate calls each subject, which adds reasons.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/describe/format_place.h"

struct report_process;

/* Result of the gate, and exit status of `gpuleak check` and `gpuleak run --gate`. */
enum judge_verdict {
	JUDGE_CLEAN = 0,
	JUDGE_FAILED = 23,
	JUDGE_NOTHING = 24, /* there is no ledger, because no GPU call was intercepted */
};

struct judge_input {
	const struct report *report;
	/* Limit for leaks that no budget covers. 0: not even a block of 0 bytes may leak. */
	uint64_t max_leaked_bytes;
	const struct pattern_file *baseline; /* known leaks; NULL: no baseline */
	const struct pattern_file *budgets;  /* NULL: no budgets */
	/* call sites that may allocate; NULL: all may. Requires ledgers with all_sites */
	const struct pattern_file *only_at;
	bool count_caches;          /* count memory in caches as leaked */
	bool count_accumulation; /* make the gate fail for suballocations that accumulate */
	/* Make the gate fail for OpenCL memory that was released, but not freed until the end, also
	 * if it is unknown what held it (--gate-held). */
	bool count_deferred;
	bool count_context_ends; /* count memory that ended with its context */
	bool count_objects; /* count objects that are not memory, too */
	bool growth_wanted; /* check growth from step to step, too */
	uint64_t max_growth; /* bytes per step that each suspect may grow */
	/* check only growth and invalid frees: the process may still run, or may end with leaks */
	bool leaks_unwanted;
	/* Sentences about problems of the run that make the gate fail: a ledger that could not be
	 * read, a missing suppression file. */
	const char *const *troubles;
	size_t trouble_count;
};

struct judgement {
	enum judge_verdict verdict;
	/* At least one reason, also if the gate passes. Reasons may contain names from ledgers with
	 * any bytes: see escape.h. */
	char **reasons;
	size_t reason_count;
	/* Remarks that do not make the gate fail, for example about known leaks that no longer
	 * occur. */
	char **notes;
	size_t note_count;
};

/* Adds a reason for failure, or a note, which does not make the gate fail. Does nothing if there
 * are very many. */
#define judgement_reason(judgement, ...) \
	judgement_add(&(judgement)->reasons, &(judgement)->reason_count, __VA_ARGS__)
#define judgement_note(judgement, ...) \
	judgement_add(&(judgement)->notes, &(judgement)->note_count, __VA_ARGS__)
void judgement_add(char ***list, size_t *count, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Writes "process 12 (app)" or "rank 3 (process 12 of app on node7)" to RET and returns it. */
const char *format_process(const struct report_process *process, char ret[FORMAT_PLACE_MAX]);

/* The same as text that is valid until the end of the block; and the text of a limit. */
#define PROCESS(process) format_process(process, (char[FORMAT_PLACE_MAX]){ 0 })
#define ALLOWED(bytes) ((bytes) ? EXACT_SIZE(bytes) : "0")

/* Returns true if leaks make the run fail: JUDGEMENT is NULL, because no gate was requested, or it
 * is not clean. Invalid frees make the run fail in any case. */
bool judgement_fails(const struct judgement *judgement);

/* Returns "gate failed: ", "gate passed: " or "gate has nothing to judge: ". */
const char *judge_prefix(enum judge_verdict verdict);

void judgement_finish(struct judgement *judgement);
