/* SPDX-License-Identifier: MIT
 *
 * A report as one list of what CI systems call results: wrong frees and leaks of all processes,
 * and what suppressions and caches took out of them, each with a name that it keeps from run
 * to run. Owns their order and their words; must not know any format.
 */
#ifndef GPULEAK_REPORT_FINDINGS_H
#define GPULEAK_REPORT_FINDINGS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "report/symbols/fingerprint.h"
#include "report/util/report_arena.h"

struct error_group;
struct report;
struct report_frame;
struct report_leak;
struct report_process;
struct report_stack;

enum finding_class {
	FINDING_ERROR,
	FINDING_LEAK,
	FINDING_CACHED,     /* held by a framework's cache: no leak */
	FINDING_SUPPRESSED,
	FINDING_CLASSES,
};

struct finding {
	enum finding_class class;
	const struct report_process *process;
	size_t process_index;
	const struct report_leak *leak;   /* NULL for an error */
	const struct error_group *errors; /* with the same stacks; NULL for a leak */
	uint64_t blocks, bytes;           /* of an error: how often, and 0 */
	const struct report_stack *stack; /* never NULL */
	uint64_t fingerprint;
	unsigned int ordinal; /* of those with the same fingerprint, from 1 */
};

/* By class; errors in the order in which they happened, process by process, all else largest
 * first. */
struct findings {
	struct finding *all;
	size_t count;
	size_t counts[FINDING_CLASSES];
	struct report_arena arena;
};

/* To be finished also on error. 0 or -ENOMEM. */
int findings_build(const struct report *report, struct findings *ret);
void findings_finish(struct findings *findings);

/* The fingerprint and, from the second one on, "-2": unique among the findings of a report. */
#define FINDING_NAME_MAX (FINGERPRINT_TEXT + 16)
char *finding_name(const struct finding *finding, char ret[FINDING_NAME_MAX]);

/* "leak", "cache", or the error's type: any bytes. */
const char *finding_rule(const struct finding *finding);

/* The frame to point at: the application's own if its file is known, else the nearest one
 * around it whose file is; NULL if there is none. */
const struct report_frame *finding_frame(const struct finding *finding);

/* Words, made harmless by print_escaped(): no control character, valid UTF-8. */

/* "GPU memory leak: 1.0 MiB", "GPU double free" */
void finding_title(FILE *out, const struct finding *finding);
/* What and where, in one line. NAME_PROCESS: and by whom. */
void finding_message(FILE *out, const struct finding *finding, int name_process);
/* All stacks and histories, in several lines. */
void finding_details(FILE *out, const struct finding *finding);
/* Why a cached or suppressed finding is no leak. */
void finding_exemption(FILE *out, const struct finding *finding);

/* "3 blocks, 1,024 bytes (1.0 KiB)" */
void finding_amount(FILE *out, uint64_t blocks, uint64_t bytes);

/* Whether PROCESS had more wrong frees than it has records of. */
uint64_t finding_lost_errors(const struct report_process *process);

/* Why nobody may take the report for a clean one although nothing was found, one line each for
 * PRINT; process by process, then the report's own. How many there are. */
typedef void finding_gap_fn(void *data, const struct report_process *process, const char *text);
size_t findings_gaps(const struct report *report, finding_gap_fn *print, void *data);

#endif
