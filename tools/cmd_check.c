/* SPDX-License-Identifier: MIT
 *
 * gpuleak check: runs only the gate, on existing ledgers. The exit status is the result of the
 * gate. It fails if a ledger cannot be read.
 */
#include <stdio.h>

#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/ledgers/operands.h"
#include "tools/session.h"
#include "report/subjects/subject_words.h"

static int check(struct session *session, const struct operands *operands)
{
	int on_stdout, r;
	enum judge_verdict verdict;

	if (session_files(session) < 0)
		return STATUS_USAGE;
	for (size_t i = 0; i < operands->list.count; i++)
		session_add(session, operands->list.files[i].path, NULL);
	if (operands->missing > 0 && operands->list.count > 0)
		session_trouble(session, "%d of the ledgers to check are missing",
				operands->missing);
	report_sort(&session->report);
	verdict = session_judge(session);
	on_stdout = opt_values.format != OPTION_FORMAT_TEXT && !opt_text[OPTION_REPORT];
	if (on_stdout)
		r = session_write(session, NULL);
	else if (opt_text[OPTION_REPORT])
		r = session_write_pattern(session, opt_values.report);
	else
		r = session_write(session, "none"); /* other files that options request */
	session_print_verdict(session, on_stdout ? stderr : stdout, "");
	for (size_t i = 0; i < session->report.count && opt_values.verbose && !on_stdout; i++)
		describe_all_coverage(stdout, session->report.processes[i]);
	return verdict == JUDGE_CLEAN && r < 0 ? STATUS_NOTHING_READ : verdict;
}

static int check_operands(char **operands, int count)
{
	struct operands found = { 0 };
	struct session session;
	int status;

	flags_environment(OPTIONS_OF_REPORT & ~OPTION_BIT(OPTION_REPORT));
	if (session_refuses(opt_text[OPTION_REPORT] ? opt_values.report : NULL))
		return STATUS_USAGE;
	session_start(&session);
	operands_find(&found, operands, count);
	status = check(&session, &found);
	ledgers_finish(&found.list);
	session_finish(&session);
	return status;
}

const struct flags_command command_check = {
	.name = "check",
	.summary = "print the verdict on ledgers, and exit with it",
	.synopsis = "[options] LEDGER|DIRECTORY|PID...",
	.prose = "Prints the gate's verdict on the ledgers and exits with it. With a --format\n"
		 "other than text, or with --report, it also writes the report.\n",
	.options = OPTIONS_OF_REPORT,
	.extras = (const struct flags_extra[]){ FLAG_UPDATE_BASELINE, { NULL } },
	.report_to = "nowhere",
	.tail = "exit status: 0 clean, 23 the gate failed, 24 there was no ledger, 1 the\n"
		"report could not be written, 2 wrong usage, 125 memory was short.\n",
	.operands_min = 1,
	.wanted = "name a ledger or a directory of ledgers",
	.usage_status = STATUS_USAGE,
	.main = check_operands,
};
