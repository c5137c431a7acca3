/* SPDX-License-Identifier: MIT
 *
 * Makes a report from ledger files, writes it, and runs the gate. The subcommands run, report
 * and check share this code. Prints errors on stderr and does not exit the process. Not
 * thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "report/gate/judge.h"
#include "report/load/load.h"
#include "report/model/model.h"

#define ERROR_SIZE 8192 /* for a path and a sentence */

struct session {
	struct pattern_file *suppressions;
	struct symbolizer *symbolizer;
	struct pattern_file *baseline, *budgets, *only_at; /* of the gate */
	struct report report;
	char **troubles; /* sentences about problems that make the gate fail */
	size_t trouble_count;
	struct judgement judgement;
	bool judged, has_printed; /* `judgement` is set; it was printed */
};

/* The blocks that `gpuleak report` selects by its flags. All sessions use it. */
extern struct load_choice session_choice;
/* Parses the value of --by. Returns 0, or -1 if it is not known. */
int session_set_by(const char *text);
#define FLAG_BY(group)                                                                     \
	{ "--by", group, OPTION_RANK_MORE,                                              \
	  "range: list what a call site allocates in each range by itself; call-site: " \
	  "together (default)",                                                        \
	  NULL, session_set_by, "WHAT", "range or call-site" }

/* Starts an empty session. */
void session_start(struct session *session);

/* Loads suppressions from PATH ("": none). Returns 0, or -errno with an error printed. */
int session_suppress(struct session *session, const char *path);

/* Loads rules from PATH ("": only the rules of the command). Returns 0, or -errno with an error
 * printed. After an error the rules of the command are used. */
int session_rules(struct session *session, const char *path);

/* Loads the files of the gate's options. Returns 0, or -EINVAL. Prints each missing or invalid file
 * and records it as a problem. */
int session_gate_files(struct session *session);

/* Returns true if an option or flag turns the gate on. */
bool gate_wanted(void);
/* Returns false if only --max-growth turns the gate on: then the process may end with leaks,
 * because it is a service. */
bool gate_judges_leaks(void);

/* Loads the suppressions and rules that opt_values names, and the files of the gate. Stops at the
 * first error. Returns 0, or -errno with an error printed. */
int session_files(struct session *session);

/* Adds the process of the ledger at PATH. RET_PROCESS may be NULL; the session owns *RET_PROCESS.
 * Returns 0 or -errno. Prints an error and records it as a problem. */
int session_add(struct session *session, const char *path, struct report_process **ret_process);

/* Records a sentence about a problem that makes the gate fail. */
void session_trouble(struct session *session, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Runs the gate on the report with the options of opt_values. With --update-baseline it first
 * writes the baseline; if that fails, the gate fails. */
enum judge_verdict session_judge(struct session *session);

/* Prints one line "gate failed: REASON" per reason, with BEFORE at the start of each line. Prints
 * nothing when called again. */
void session_print_verdict(struct session *session, FILE *to, const char *before);
/* Returns true if the verdict is printed before the report: known or suppressed leaks make the two
 * differ. */
bool session_verdict_is_first(const struct session *session);

/* Returns true and prints an error if WHERE (NULL: stdout) is a terminal and the format of
 * opt_values is not for terminals. */
bool session_refuses(const char *where);

/* Writes the report in opt_values.format to WHERE (see output_write(); NULL: stdout), with the
 * result of the gate if session_judge() was called. Returns 0 or -errno. On error prints the error
 * and the report as text on stderr. */
int session_write(struct session *session, const char *where);

/* Prints one line on stderr about a report written to the file WHERE: the first line of the text
 * report, and the path. Prints nothing if WHERE is not a file. */
void session_print_written(struct session *session, const char *where);

/* Calls session_write() and session_print_written() for a path with % sequences, which refer to the
 * first process. */
int session_write_pattern(struct session *session, const char *pattern);

/* Prints BEFORE, PREFIX and SENTENCE as one line. Escapes SENTENCE, which may have names from the
 * application. */
void session_print_sentence(FILE *to, const char *before, const char *prefix,
			    const char *sentence);

void session_finish(struct session *session);
