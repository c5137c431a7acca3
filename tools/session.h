/* SPDX-License-Identifier: MIT
 *
 * From ledger files to a report that is written and a verdict: what run, report and check
 * have in common. Says on stderr what could not be read; ends no process.
 */
#ifndef GPULEAK_TOOLS_SESSION_H
#define GPULEAK_TOOLS_SESSION_H

#include <stddef.h>
#include <stdio.h>

#include "tools/gate.h"
#include "report/gate/judge.h"
#include "report/model/model.h"

struct session {
	struct suppressions *suppressions;
	struct symbolizer *symbolizer;
	struct gate gate;
	struct report report;
	char **troubles; /* sentences for which the gate must not pass */
	size_t trouble_count;
	struct judgement judgement;
	int judged;
};

/* 0, or -ENOMEM with an error printed. */
int session_start(struct session *session);

/* Loads suppressions from PATH ("": none). 0, or -errno with an error printed. */
int session_suppress(struct session *session, const char *path);

/* Loads rules from PATH ("": only the shipped ones). 0, or -errno with an error printed; then the
 * shipped ones are used. */
int session_rules(struct session *session, const char *path);

/* Loads the files of the gate (see gate.h). 0, or -EINVAL: each unreadable file was printed and
 * counts as a trouble. */
int session_gate_files(struct session *session);

/* Adds the process whose ledger is at PATH; *RET_PROCESS (may be NULL) belongs to the session. 0,
 * or -errno: printed, and counted as a trouble. */
int session_add(struct session *session, const char *path, struct report_process **ret_process);

/* Notes a sentence for which the gate must not pass. */
void session_trouble(struct session *session, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Judges the report by opt_values. With --update-baseline writes the baseline first; if that fails
 * the gate fails. */
enum judge_verdict session_judge(struct session *session);

/* Prints "gate failed: REASON" lines, one a reason, with BEFORE in front of each. */
void session_print_verdict(const struct session *session, FILE *to, const char *before);

/* Refuses to write the format to WHERE (NULL: stdout) if that is a terminal and the format is not
 * for terminals; prints that. */
int session_refuses(const char *where);

/* Writes the report in opt_values.format to WHERE (see output_write()), with the verdict if it was
 * judged. On failure prints the error and the report as text on stderr. 0 or -errno. */
int session_write(struct session *session, const char *where);

/* Prints one line on stderr about the report that was written to WHERE: its first line as text,
 * and where it is. Prints nothing if WHERE is not a file. */
void session_print_written(struct session *session, const char *where);

/* Both for a path with % sequences, which the first process fills in. */
int session_write_pattern(struct session *session, const char *pattern);

/* The same to stdout. */
int session_write_stdout(struct session *session);

/* Prints BEFORE, PREFIX and SENTENCE as one line. SENTENCE may have names of the application. */
void session_print_sentence(FILE *to, const char *before, const char *prefix,
			    const char *sentence);

void session_finish(struct session *session);

#endif
