/* SPDX-License-Identifier: MIT
 *
 * A report as one list of results (findings) for CI systems: a final out-of-memory, invalid frees,
 * leaks, memory that ended with its context, call sites that accumulate, cached and suppressed
 * memory of all processes. Each finding has a name that stays the same across runs. Defines their
 * order and words. Must not depend on any format.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "report/symbols/fingerprint.h"
#include "report/util/report_arena.h"

struct ranks;
struct report;

enum finding_class {
	FINDING_OUT_OF_MEMORY, /* the refused request that ended a process */
	FINDING_ERROR,
	FINDING_LEAK,
	FINDING_CONTEXT_END, /* memory that ended with its context */
	FINDING_ACCUMULATING, /* suballocations that the program keeps more and more of */
	FINDING_CACHED,     /* in a framework's cache: not a leak */
	FINDING_KEPT,       /* of a process to which gpuleak attached: not known to be a leak */
	FINDING_SUPPRESSED,
	FINDING_CLASSES,
};

struct finding {
	enum finding_class class;
	const struct report_process *process;
	size_t process_index;
	/* the out-of-memory; NULL for other classes */
	const struct report_out_of_memory *refusal;
	/* NULL for an error and an out-of-memory; of a call site that accumulates: its live
	 * suballocations */
	const struct report_leak *leak;
	const struct report_suballocations *site; /* a call site that accumulates, or NULL */
	const struct report_context_end *end; /* if `leak` ended with its context, or NULL */
	struct error_group *errors; /* errors with the same stacks; NULL for other classes */
	/* For an error: the number of errors, and 0 bytes. For a call site that accumulates: what
	 * is kept. For an out-of-memory: 0 and 0. */
	uint64_t blocks, bytes;
	uint64_t keeps; /* of a leak: see report_leak.keeps_bytes; else `bytes` */
	uint64_t freed; /* of a leak: see report_leak.freed_blocks */
	const struct report_stack *stack; /* never NULL */
	uint64_t fingerprint, fingerprint2; /* of versions 1 and 2 */
	/* Stacks of one line, and what one variable keeps, are one finding. Its `leak`, `stack` and
	 * fingerprints are those of its largest part, and `bytes` and `blocks` are its sums. */
	struct finding *parts; /* the other parts, largest first; NULL: there is one part */
	struct finding *next; /* of a part: the next one */
	size_t order; /* number of the findings that were found before it */
	unsigned int ordinal; /* number among the findings with the same fingerprint, from 1 */
};

/* Ordered by class. The first two classes are ordered by process and time, all others by size,
 * largest first. */
struct findings {
	struct finding *all;
	size_t count;
	size_t counts[FINDING_CLASSES];
	/* the reasons why a report without findings does not prove that there are no leaks: first
	 * for each process, then for the whole report */
	struct finding_gap {
		const struct report_process *process; /* NULL: the whole report */
		const char *text; /* may have any bytes */
	} *gaps;
	size_t gap_count;
	struct report_arena arena;
};

/* Returns the findings of REPORT, one for each stack. The caller releases them with
 * findings_finish(). */
struct findings findings_build(const struct report *report);
/* The same, but findings of one line and class in one process are one. */
struct findings findings_build_merged(const struct report *report);
void findings_finish(struct findings *findings);

/* Returns the index of the first finding of CLASS, or the index where a finding of CLASS would
 * be. */
size_t findings_first(const struct findings *findings, enum finding_class class);

/* Returns the finding of CLASS in PROCESS that follows AFTER (NULL: the first one), or NULL. */
const struct finding *findings_next(const struct findings *findings,
				    const struct report_process *process,
				    enum finding_class class, const struct finding *after);

/* Writes a name that is unique in the report to RET and returns it: the fingerprint, followed by
 * "-2", "-3" ... if earlier findings have the same fingerprint. */
#define FINDING_NAME_MAX (FINGERPRINT_TEXT + 16)
char *finding_name(const struct finding *finding, char ret[FINDING_NAME_MAX]);

/* Returns "out-of-memory", "leak", "ended-with-context", "accumulation", "cache", "kept", or the
 * error's type, which may have any bytes. */
const char *finding_rule(const struct finding *finding);

/* Returns the frame to show: that of report_stack_culprit() or, if its file is not known, the
 * nearest frame outside of it whose file is known. Returns NULL if there is none. */
const struct report_frame *finding_frame(const struct finding *finding);

/* All functions below print valid UTF-8 without control characters (see print_escaped()). */

/* Prints "GPU memory leak: 1.0 MiB" or "GPU double free". */
void finding_title(FILE *out, const struct finding *finding);
/* Prints what happened and where, in one line. Includes the process if NAME_PROCESS is set. */
void finding_message(FILE *out, const struct finding *finding, bool name_process);
/* Prints all stacks and histories, in several lines. */
void finding_details(FILE *out, const struct finding *finding);
/* Returns true if other ranks than that of FINDING have all of its parts. RANKS may be NULL. */
bool finding_is_shared(const struct finding *finding, const struct ranks *ranks);
/* Prints the place of the largest part of FINDING, a leak, and its caller or what is more important
 * than the caller: a refused free, what keeps it, the parent that it keeps. */
void describe_leak_place(FILE *out, const struct finding *finding, bool whole);
/* Prints "5 of 10 blocks" if other blocks of the leak's call sites were freed, else "5 blocks". */
void finding_blocks(FILE *out, const struct finding *finding);
/* Prints a line for each part of FINDING but the largest, and its stack if WHOLE is set. */
void finding_parts(FILE *out, const struct finding *finding, bool whole);
/* Prints describe_trend() of all parts of FINDING, a call site that accumulates. */
void finding_trend(FILE *out, const struct finding *finding);
/* Prints why the gate does not count a cached or suppressed finding. */
void finding_exemption(FILE *out, const struct finding *finding);

/* Returns the sentence about a REPORT without processes. */
const char *findings_nothing(const struct report *report);
