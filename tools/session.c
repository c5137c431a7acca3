/* SPDX-License-Identifier: MIT
 *
 * Puts the parts of report/ together. Owns their lifetimes; must not know how ledgers were
 * found.
 */
#include "session.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "escape.h"
#include "flags.h"
#include "formats.h"
#include "ledgers.h"
#include "load.h"
#include "output.h"
#include "pattern.h"
#include "rules.h"
#include "suppress.h"
#include "symbolize.h"

#define ERROR_SIZE 8192 /* a path and a sentence */

static int no_memory(void)
{
	fputs("gpuleak: out of memory\n", stderr);
	return -ENOMEM;
}

int session_start(struct session *session)
{
	memset(session, 0, sizeof(*session));
	return symbolizer_create(0, &session->symbolizer) < 0 ? no_memory() : 0;
}

int session_suppress(struct session *session, const char *path)
{
	char error[ERROR_SIZE];
	int r;

	if (!*path)
		return 0;
	r = suppressions_load(path, &session->suppressions, error, sizeof(error));
	if (r < 0) {
		fprintf(stderr, "gpuleak: %s\n", error);
		return r;
	}
	session->report.suppressions = session->suppressions;
	return 0;
}

int session_rules(struct session *session, const char *path)
{
	char error[ERROR_SIZE];
	struct rules *rules;
	int r;

	if (!*path)
		return 0;
	r = rules_load(path, &rules, error, sizeof(error));
	if (r < 0)
		fprintf(stderr, "gpuleak: %s\n", error);
	else
		symbolizer_set_rules(session->symbolizer, rules);
	return r;
}

void session_trouble(struct session *session, const char *format, ...)
{
	char **troubles = reallocarray(session->troubles, session->trouble_count + 1,
				       sizeof(*troubles));
	va_list args;
	int n = -1;

	if (troubles) {
		session->troubles = troubles;
		va_start(args, format);
		n = vasprintf(&troubles[session->trouble_count], format, args);
		va_end(args);
	}
	if (n >= 0)
		session->trouble_count++;
	session->report.incomplete = 1; /* so that the gate fails without its words, too */
}

static int add(struct session *session, const char *path, struct report_process **ret_process,
	       char *error, size_t error_size)
{
	struct report_process *process;
	struct loaded_ledger ledger;
	int r = loaded_ledger_open(path, &ledger, error, error_size);

	if (r < 0)
		return r;
	r = report_process_build(&ledger, session->symbolizer, session->suppressions, &process);
	loaded_ledger_finish(&ledger);
	if (r == 0)
		r = report_add_process(&session->report, process);
	if (r < 0)
		snprintf(error, error_size, "%s: cannot report on it: %s", path, strerror(-r));
	else if (ret_process)
		*ret_process = process;
	return r;
}

int session_add(struct session *session, const char *path, struct report_process **ret_process)
{
	char error[ERROR_SIZE];
	int r = add(session, path, ret_process, error, sizeof(error));

	if (r < 0) {
		fprintf(stderr, "gpuleak: %s\n", error);
		session_trouble(session, "%s", error);
		report_add_note(&session->report, error);
	}
	return r;
}

enum judge_verdict session_judge(struct session *session)
{
	const struct judge_input input = {
		.report = &session->report,
		.max_leaked_bytes = (uint64_t)opt_values.max_leaked_bytes,
		.count_caches = (int)opt_values.gate_caches,
		.troubles = (const char *const *)session->troubles,
		.trouble_count = session->trouble_count,
	};

	if (judge(&input, &session->judgement) < 0)
		no_memory();
	session->judged = 1;
	return session->judgement.verdict;
}

void session_print_verdict(const struct session *session, FILE *to, const char *before)
{
	const struct judgement *j = &session->judgement;

	for (size_t i = 0; i < j->reason_count; i++) {
		fprintf(to, "%s%s", before, judge_prefix(j->verdict));
		print_escaped(to, j->reasons[i]);
		fputc('\n', to);
	}
}

/* The report in *RET_TEXT, to be freed. */
static int render(struct session *session, char **ret_text, size_t *ret_length)
{
	FILE *to = open_memstream(ret_text, ret_length);
	int r;

	if (!to)
		return -ENOMEM;
	session->report.verbose = (int)opt_values.verbose;
	r = report_format(opt_values.format)->print(&session->report,
		session->judged ? &session->judgement : NULL, to);
	if (fclose(to) != 0 && r == 0)
		r = -ENOMEM;
	if (r < 0)
		free(*ret_text);
	return r;
}

/* Renders and writes to WHERE, or to stdout if that is NULL. */
static int write_report(struct session *session, const char *where)
{
	char error[ERROR_SIZE], ignored[ERROR_SIZE];
	char *text = NULL;
	size_t length = 0;
	int r;

	if (where && strcmp(where, "none") == 0)
		return 0;
	if (render(session, &text, &length) < 0)
		return no_memory();
	if (where)
		r = output_write(where, text, length, error, sizeof(error));
	else
		r = output_write_fd(STDOUT_FILENO, "stdout", text, length, error, sizeof(error));
	if (r < 0) {
		fprintf(stderr, "gpuleak: %s\n", error);
		/* What was found must not be lost with the place it was to go to. */
		if (where && strcmp(where, "stderr") != 0)
			output_write("stderr", text, length, ignored, sizeof(ignored));
	}
	free(text);
	return r;
}

int session_write(struct session *session, const char *where)
{
	return write_report(session, where);
}

int session_write_stdout(struct session *session)
{
	return write_report(session, NULL);
}

int session_write_pattern(struct session *session, const char *pattern)
{
	const struct report_process *first =
		session->report.count ? session->report.processes[0] : NULL;
	const struct pattern_values values = {
		.pid = first ? first->pid : 0,
		.host = first && first->host ? first->host : "",
		.program = first ? first->program : "",
		.variable = ledger_variable,
	};
	char path[PATH_MAX];
	int r = pattern_expand(pattern, &values, path, sizeof(path));

	if (r < 0) {
		fprintf(stderr, "gpuleak: bad value '%s' of --report: known are %%p, %%h, %%e, "
			"%%q{VAR} and %%%%\n", pattern);
		return r;
	}
	return write_report(session, path);
}

void session_finish(struct session *session)
{
	report_finish(&session->report);
	suppressions_destroy(session->suppressions);
	symbolizer_destroy(session->symbolizer);
	judgement_finish(&session->judgement);
	for (size_t i = 0; i < session->trouble_count; i++)
		free(session->troubles[i]);
	free(session->troubles);
	memset(session, 0, sizeof(*session));
}
