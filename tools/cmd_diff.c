/* SPDX-License-Identifier: MIT
 *
 * gpuleak diff: compares the leaks of two sides. A side is a ledger, a directory of ledgers, a
 * process, or a JSON report. This file recognizes which one it is.
 */
#include "report/analyze/diff.h"
#include "report/gate/read_json.h"
#include "report/subjects/formats.h"
#include "report/util/output.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/launch/system.h"
#include "tools/ledgers/operands.h"
#include "tools/session.h"

/* Returns true if PATH is a file that begins with a brace. No ledger does. */
static bool is_json(const char *path)
{
	char first[64];
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	file_head(path, first, sizeof(first));
	return first[strspn(first, " \t\r\n")] == '{';
}

static int read_side(struct session *session, char *word)
{
	AT_END(operands_finish) struct operands operands = { 0 };
	char error[ERROR_SIZE];
	int r = 0;

	if (is_json(word)) {
		r = report_read_json(word, &session->report, error, sizeof(error));
		if (r < 0)
			print_error("%s", error);
		return r;
	}
	operands_find(&operands, &word, 1);
	for (size_t i = 0; i < operands.list.count && r == 0; i++)
		r = session_add(session, operands.list.files[i].path, NULL);
	return operands.missing ? -ENOENT : r;
}

static int print(const struct diff *diff)
{
	FREE_AT_END char *words = PRINTED(to,
		if (opt_values.format == OPTION_FORMAT_JSON)
			diff_print_json(diff, to);
		else
			diff_print_text(diff, to));
	char error[ERROR_SIZE];
	int r = output_write_fd(STDOUT_FILENO, "stdout", words, strlen(words), error,
				sizeof(error));

	if (r < 0)
		print_error("%s", error);
	return r;
}

static int compare(struct session sides[2], char **words)
{
	int status = 0, failed = 0;
	struct diff diff;

	for (int i = 0; i < 2; i++)
		if (session_suppress(&sides[i], opt_values.suppressions) < 0 ||
		    session_rules(&sides[i], opt_values.rules) < 0)
			return STATUS_USAGE;
	for (int i = 0; i < 2; i++)
		failed |= read_side(&sides[i], words[i]) < 0;
	if (failed)
		return STATUS_NOTHING_READ;
	diff = diff_make(&sides[0].report, &sides[1].report);
	if (print(&diff) < 0)
		status = STATUS_NOTHING_READ;
	else if (opt_gate && diff.worse)
		status = JUDGE_FAILED;
	diff_finish(&diff);
	return status;
}

static int diff_operands(char **operands, int count)
{
	struct session sides[2];
	int status;

	(void)count;
	flags_environment(command_diff.options & ~OPTION_BIT(OPTION_FORMAT));
	session_start(&sides[0]);
	session_start(&sides[1]);
	status = compare(sides, operands);
	session_finish(&sides[1]);
	session_finish(&sides[0]);
	return status;
}

const struct flags_command command_diff = {
	.name = "diff",
	.summary = "compare the leaks of two reports",
	.synopsis = "[options] BEFORE AFTER",
	.prose = "Compares the leaks of two ledgers, directories of ledgers, processes or reports\n"
		 "in JSON. Leaks with the same fingerprint are the same leak. A fingerprint does\n"
		 "not change if lines move. Memory that ended with its context and call sites\n"
		 "that accumulate suballocations are also compared.\n",
	.options = OPTION_BIT(OPTION_FORMAT) | OPTION_BIT(OPTION_SUPPRESSIONS) |
		   OPTION_BIT(OPTION_LSAN_SUPPRESSIONS) | OPTION_BIT(OPTION_RULES),
	.extras = (const struct flags_extra[]){ FLAG_GATE, { NULL } },
	.formats = (const char *const[]){ "text", "json", NULL },
	.report_to = "standard output",
	.tail = "exit status: 0 compared, 23 with --gate if a leak, or memory that ended with\n"
		"its context, is new or grew, another call site accumulates, or there are more\n"
		"invalid frees; 1 a side could not be read, 2 wrong usage, 125 memory was short.\n",
	.operands_min = 2,
	.operands_max = 2,
	.wanted = "name two ledgers, directories of ledgers, or reports in JSON",
	.usage_status = STATUS_USAGE,
	.main = diff_operands,
};
