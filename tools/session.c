/* SPDX-License-Identifier: MIT
 *
 * Connects the parts of report/ and owns their objects. Must not depend on how ledgers were
 * found.
 */
#include "tools/session.h"

#include <inttypes.h>
#include <stdarg.h>

#include "ledger/pattern.h"
#include "report/analyze/ipc_match.h"
#include "report/subjects/formats.h"
#include "report/subjects/subject.h"
#include "report/suppress/suppress.h"
#include "report/symbols/rules.h"
#include "report/symbols/symbolize.h"
#include "report/util/abrupt_end.h"
#include "report/util/number.h"
#include "report/util/output.h"
#include "tools/flags.h"
#include "tools/launch/system.h"
#include "tools/ledgers/ledgers.h"

struct load_choice session_choice;

int session_set_by(const char *text)
{
	session_choice.by_range = strcmp(text, "range") == 0;
	return session_choice.by_range || strcmp(text, "call-site") == 0 ? 0 : -1;
}

void session_start(struct session *session)
{
	memset(session, 0, sizeof(*session));
	session->symbolizer = symbolizer_create(0);
}

int session_suppress(struct session *session, const char *path)
{
	char error[ERROR_SIZE];
	int r;

	if (!*path)
		return 0;
	r = pattern_file_parse(&suppression_syntax, NULL, 0, path, &session->suppressions, error,
			       sizeof(error));
	if (r < 0) {
		print_error("%s", error);
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
	r = rules_parse(NULL, 0, path, &rules, error, sizeof(error));
	if (r < 0)
		print_error("%s", error);
	else
		symbolizer_set_rules(session->symbolizer, rules);
	return r;
}

int session_files(struct session *session)
{
	int r = session_suppress(session, opt_values.suppressions);

	if (r == 0)
		r = session_rules(session, opt_values.rules);
	return r < 0 ? r : session_gate_files(session);
}

void session_trouble(struct session *session, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	*LIST_ADD(session->troubles, session->trouble_count) = text_vformat(format, args);
	va_end(args);
	session->report.incomplete = true;
}

static int add_ledger(struct session *session, const char *path,
		      struct report_process **ret_process, char *error, size_t error_size)
{
	struct report_process *process;
	struct loaded_ledger ledger;
	int r = loaded_ledger_open(path, &ledger, error, error_size);

	if (r < 0)
		return r;
	ledger.all_sites =
		report_format(opt_values.format)->all_sites || session->only_at;
	ledger.moments = report_format(opt_values.format)->moments;
	ledger.whole_trace = report_format(opt_values.format)->whole_trace;
	/* Nothing else than the text report reads the frames. */
	ledger.names_starts = opt_values.format == OPTION_FORMAT_TEXT && !session->suppressions &&
			      !session->baseline && !session->budgets && !session->only_at &&
			      !*opt_values.rules && !*opt_values.gen_suppressions;
	ledger.program_suppressions = (int)opt_values.lsan_suppressions;
	ledger.choice = session_choice;
	ledger.older_ns = (uint64_t)opt_values.older * 1000000u;
	process = report_process_build(&ledger, session->symbolizer, session->suppressions);
	loaded_ledger_finish(&ledger);
	report_add_process(&session->report, process);
	if (ret_process)
		*ret_process = process;
	return 0;
}

int session_add(struct session *session, const char *path, struct report_process **ret_process)
{
	char error[ERROR_SIZE];
	int r = add_ledger(session, path, ret_process, error, sizeof(error));

	if (r < 0) {
		print_error("%s", error);
		session_trouble(session, "%s", error);
		report_add_note(&session->report, error);
	}
	return r;
}

void session_print_sentence(FILE *to, const char *before, const char *prefix,
			    const char *sentence)
{
	fprintf(to, "%s%s", before, prefix);
	print_escaped(to, sentence);
	fputc('\n', to);
}


bool session_verdict_is_first(const struct session *session)
{
	const struct report_summary *sum = &session->report.summary;

	return (session->baseline && sum->leaked_blocks) || sum->suppressed_blocks;
}

void session_print_verdict(struct session *session, FILE *to, const char *before)
{
	const struct judgement *j = &session->judgement;
	const char *prefix = judge_prefix(j->verdict);
	FREE_AT_END char *lines = PRINTED(out,
		for (size_t i = 0; i < j->reason_count; i++)
			session_print_sentence(out, before, prefix, j->reasons[i]);
		for (size_t i = 0; i < j->note_count; i++)
			session_print_sentence(out, before, "gate: ", j->notes[i]));

	if (session->has_printed)
		return;
	session->has_printed = true;
	if (flags_wants_colors(to == stdout ? NULL : "stderr"))
		text_color(lines, to);
	else
		fputs(lines, to);
}

/* Stores the output of PRINT in *RET. The caller calls text_buffer_finish(). */
static void render(struct session *session, print_format *print, struct text_buffer *ret)
{
	text_buffer_begin(ret);
	session->report.verbose = (int)opt_values.verbose;
	ipc_match(&session->report);
	if (print(&session->report, session->judged ? &session->judgement : NULL, ret->out) < 0)
		abrupt_end_no_memory();
	text_buffer_end(ret);
}

bool session_refuses(const char *where)
{
	if (!report_format(opt_values.format)->for_files || !output_is_terminal(where))
		return false;
	print_error("the format %s is not written to a terminal: name a file with --report",
		    option_word(OPTION_FORMAT, opt_values.format));
	return true;
}

/* Prints a warning if the format cannot contain a part of the report. */
static void print_missing(const struct session *session)
{
	const struct report *report = &session->report;
	size_t notes = report->note_count;

	if (!report_format(opt_values.format)->only_memory)
		return;
	for (size_t i = 0; i < report->count; i++)
		notes += report->processes[i]->note_count;
	if (report->summary.errors || notes)
		eprintf(stderr,
			"gpuleak: the format %s has no place for %" PRIu64 " invalid free%s "
			"and %zu note%s: see --format text\n",
			option_word(OPTION_FORMAT, opt_values.format), report->summary.errors,
			plural(report->summary.errors), notes, plural(notes));
}

/* Appends the format's summary to the file that an environment variable names. */
static void write_summary(struct session *session)
{
	const struct report_format *format = report_format(opt_values.format);
	const char *path = format->summary ? getenv(format->summary_variable) : NULL;
	AT_END(text_buffer_finish) struct text_buffer words = { 0 };
	char error[ERROR_SIZE];

	if (!path || !*path)
		return;
	render(session, format->summary, &words);
	if (output_append(path, format->summary_bytes_max, words.text, words.length, error,
			  sizeof(error)) < 0)
		print_error("%s: %s", format->summary_variable, error);
}

/* Expands PATTERN, the value of option ID, for the first process, and writes the path to RET.
 * Returns 0 or -errno. */
static int expand(const struct session *session, enum option_id id, const char *pattern,
		  char ret[PATH_MAX])
{
	const struct report_process *first =
		session->report.count ? session->report.processes[0] : NULL;
	const struct pattern_values values = {
		.pid = first ? first->pid : 0,
		.host = first && first->host ? first->host : "",
		.program = first ? first->program : "",
		.variable = ledger_variable,
	};
	int r = pattern_expand(pattern, &values, ret, PATH_MAX);

	if (r < 0)
		print_error("bad value '%s' of --%s: known are %%p, %%h, %%e, %%q{VAR} and %%%%",
			    pattern, option_rows[id].flag);
	return r;
}

/* Returns true if other output shows names as a verbose text report does. */
static bool has_whole_names(const struct report *report)
{
	return report->verbose && (opt_values.format == OPTION_FORMAT_TEXT ||
				   opt_values.format == OPTION_FORMAT_HTML);
}

/* Writes the suppressions that opt_values.gen_suppressions requests. Returns 0, or -errno with an
 * error printed. */
static int write_suppressions(struct session *session)
{
	char path[PATH_MAX], error[ERROR_SIZE];
	FREE_AT_END char *words = NULL;
	int r;

	if (!*opt_values.gen_suppressions)
		return 0;
	r = expand(session, OPTION_GEN_SUPPRESSIONS, opt_values.gen_suppressions, path);
	if (r < 0)
		return r;
	words = PRINTED(to, gen_suppressions(&session->report, to,
					     has_whole_names(&session->report)));
	r = output_write_file(path, "suppressions", words, strlen(words), error, sizeof(error));
	if (r < 0)
		print_error("%s", error);
	return r;
}

/* Writes the output of PRINT to WHERE (NULL: stdout). Returns 0 or -errno. */
static int write_as(struct session *session, print_format *print, const char *where)
{
	AT_END(text_buffer_finish) struct text_buffer plain = { 0 }, words = { 0 };
	char error[ERROR_SIZE];
	int r;

	render(session, print, &words);
	if (print == print_text && flags_wants_colors(where)) {
		plain = words;
		text_buffer_begin(&words);
		text_color(plain.text, words.out);
		text_buffer_end(&words);
	}
	if (where)
		r = output_write(where, words.text, words.length, error, sizeof(error));
	else
		r = output_write_fd(STDOUT_FILENO, "stdout", words.text, words.length, error,
				    sizeof(error));
	if (r < 0)
		print_error("%s", error);
	return r;
}

static int write_report(struct session *session, const char *where)
{
	int r;

	if (where && strcmp(where, "none") == 0)
		return 0;
	if (session_refuses(where)) {
		r = -EINVAL;
	} else {
		print_missing(session);
		write_summary(session);
		r = write_as(session, report_format(opt_values.format)->print, where);
	}
	/* If nothing could be written to WHERE, writes the text report to stderr. If WHERE is
	 * stderr, does so only if the format is not for terminals, because another write would
	 * fail, too. */
	if (where && (r == -EINVAL || (r < 0 && strcmp(where, "stderr") != 0)))
		write_as(session, print_text, "stderr");
	return r;
}

static int print_headline(const struct report *report, const struct judgement *judgement, FILE *out)
{
	(void)judgement;
	print_text_headline(report, out, has_whole_names(report));
	return 0;
}

void session_print_written(struct session *session, const char *where)
{
	AT_END(text_buffer_finish) struct text_buffer words = { 0 };
	char path[PATH_MAX];
	struct stat st;

	/* A path in /dev is a descriptor of the caller, who knows its file. */
	if (strcmp(where, "none") == 0 || strcmp(where, "stderr") == 0 ||
	    strncmp(where, "/dev/", 5) == 0 || !realpath(where, path) ||
	    stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	render(session, print_headline, &words);
	eprintf(stderr, "%.*s; report: ", (int)strcspn(words.text, "\n"), words.text);
	session_print_sentence(stderr, "", "", path);
}

int session_write(struct session *session, const char *where)
{
	int r = write_report(session, where), suppressions = write_suppressions(session);

	return r < 0 ? r : suppressions;
}

int session_write_pattern(struct session *session, const char *pattern)
{
	char path[PATH_MAX];
	int r = expand(session, OPTION_REPORT, pattern, path);

	if (r == 0)
		r = session_write(session, path);
	if (r == 0)
		session_print_written(session, path);
	return r;
}

void session_finish(struct session *session)
{
	report_finish(&session->report);
	pattern_file_destroy(session->suppressions);
	pattern_file_destroy(session->baseline);
	pattern_file_destroy(session->budgets);
	pattern_file_destroy(session->only_at);
	symbolizer_destroy(session->symbolizer);
	judgement_finish(&session->judgement);
	for (size_t i = 0; i < session->trouble_count; i++)
		free(session->troubles[i]);
	free(session->troubles);
	memset(session, 0, sizeof(*session));
}
