/* SPDX-License-Identifier: MIT
 *
 * gpuleak report: reports on existing ledgers, also of running processes. The library runs it at
 * process exit (--at-exit) and relies on its exit status. gpuleak check: runs only the gate on
 * ledgers. Its exit status is the result of the gate, which fails if a ledger cannot be read.
 */
#include "report/subjects/formats.h"
#include "report/subjects/subject_words.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/launch/system.h"
#include "tools/ledgers/ledgers.h"
#include "tools/ledgers/operands.h"
#include "tools/ledgers/rundir.h"
#include "tools/nvml/sampler.h"
#include "tools/reader_wait.h"
#include "tools/session.h"

#define SAMPLER_WAIT_MS 1000 /* the application may be waiting for this command */

static bool at_exit, remove_ledger; /* --at-exit, --remove */

static int set_since(const char *text)
{
	return flags_number(text, 10, UINT64_MAX, &session_choice.since);
}

static int set_thread(const char *text)
{
	uint64_t thread;

	if (flags_number(text, 10, UINT32_MAX, &thread) < 0)
		return -1;
	session_choice.thread = (uint32_t)thread;
	return 0;
}

static int set_address(const char *text)
{
	return flags_number(text, strncmp(text, "0x", 2) == 0 ? 16 : 10, UINT64_MAX,
			    &session_choice.address);
}

/* Stores the time that the LENGTH bytes of TEXT name, in nanoseconds. Returns 0 or -1. */
static int parse_time(const char *text, size_t length, uint64_t *ret)
{
	char copy[32];
	long long ms;

	if (length >= sizeof(copy))
		return -1;
	memcpy(copy, text, length);
	copy[length] = '\0';
	if (option_duration(copy, &ms) < 0 || ms > INT64_MAX / 1000000)
		return -1;
	*ret = (uint64_t)ms * 1000000u;
	return 0;
}

static int set_at(const char *text)
{
	session_choice.has_at = true;
	return parse_time(text, strlen(text), &session_choice.at_ns);
}

static int set_between(const char *text)
{
	const char *dots = strstr(text, "..");
	uint64_t *ns = session_choice.between_ns;

	session_choice.has_between = true;
	if (!dots || parse_time(text, (size_t)(dots - text), &ns[0]) < 0 ||
	    parse_time(dots + 2, strlen(dots + 2), &ns[1]) < 0)
		return -1;
	return ns[0] < ns[1] ? 0 : -1;
}

/* Returns true and prints an error if the format has no place for the moments, or if a gate would
 * judge parts of call sites. */
static bool refuses_choice(void)
{
	bool takes_at = opt_values.format == OPTION_FORMAT_MEMORY_VIZ;

	if (session_choice.by_range && gate_wanted()) {
		print_error("--by range is for reports; a gate judges call sites");
		return true;
	}
	if (opt_values.format == OPTION_FORMAT_TEXT || opt_values.format == OPTION_FORMAT_JSON ||
	    !(session_choice.has_between || (session_choice.has_at && !takes_at)))
		return false;
	print_error("--at and --between need the format text or json");
	return true;
}

/* Samples the driver memory of the running processes of the COUNT ledgers at PATHS. */
static void sample(struct session *session, const char *const *paths, size_t count)
{
	struct sampler sampler = { 0 };

	if (count == 0 || sampler_start_once(&sampler, paths, count) < 0)
		return;
	sampler_finish(&sampler, SAMPLER_WAIT_MS);
	for (size_t i = 0; i < session->report.count; i++)
		sampler_attach(&sampler, session->report.processes[i]);
}

/* Returns true if the report shows driver memory. The text report of a clean process is one line
 * and does not. */
static bool shows_driver_memory(const struct session *session)
{
	const struct report *report = &session->report;
	bool wrong = report->summary.leaked_blocks || report->summary.errors;

	if (session_choice.addresses) /* the program compares them with its objects, and waits */
		return false;
	for (size_t i = 0; i < report->count; i++)
		wrong |= report->processes[i]->deferred.group_count != 0;
	return strcmp(opt_values.report, "none") != 0 &&
	       (report_format(opt_values.format)->complete || wrong);
}

/* Writes the report, and the verdict if the gate failed. All other formats than text contain it. */
static void write_with_verdict(struct session *session)
{
	bool fails = session->judged && session->judgement.verdict == JUDGE_FAILED &&
		     gate_wanted() && opt_values.format == OPTION_FORMAT_TEXT &&
		     strcmp(opt_values.report, "stderr") == 0;

	if (fails && session_verdict_is_first(session))
		session_print_verdict(session, stderr, "gpuleak: ");
	session_write(session, opt_values.report);
	if (fails)
		session_print_verdict(session, stderr, "gpuleak: ");
}

/* Writes the report for --at-exit. The library has already expanded the path of the report. Returns
 * the result of the gate, which is the exit status that the library expects. */
static int report_at_exit(struct session *session, const char *ledger)
{
	struct report_process *process;
	enum judge_verdict verdict;

	reader_wait_hold_lines();
	if (session_suppress(session, opt_values.suppressions) < 0) {
		session_trouble(session, "the suppressions could not be read");
		report_add_note(&session->report,
				"the suppressions could not be read: nothing is suppressed");
	}
	if (session_rules(session, opt_values.rules) < 0) {
		session_trouble(session, "the rules could not be read");
		report_add_note(&session->report,
				"the rules could not be read: gpuleak's own rules are used");
	}
	session_gate_files(session); /* the gate fails if a file cannot be read */
	if (session_add(session, ledger, &process) < 0) {
		reader_wait_limit(STATUS_NOTHING_READ);
		return STATUS_NOTHING_READ;
	}
	/* A running process requested the report, so the gate does not apply yet. */
	verdict = process->ended == REPORT_RUNNING ? JUDGE_CLEAN : session_judge(session);
	if (process->ended == REPORT_RUNNING)
		reader_wait_release_lines();
	else
		reader_wait_limit(verdict);
	if (shows_driver_memory(session))
		sample(session, &ledger, 1);
	write_with_verdict(session);
	if (remove_ledger)
		unlink(ledger);
	return verdict;
}

/* Prints where the ledger of an ended process is, because reading does not remove it. */
static void print_remaining(const struct operands *operands)
{
	EACH_ITEM(operands->list.files, operands->list.count, file) {
		if (operands->by_pid && !process_runs(file->pid, file->start_ticks))
			print_error("process %d has ended; its ledger stays at %s", file->pid,
				    file->path);
	}
}

static void sample_running(struct session *session, const struct operands *operands)
{
	const char **paths = calloc(operands->list.count + 1, sizeof(*paths));
	size_t count = 0;

	for (size_t i = 0; i < session->report.count; i++)
		if (session->report.processes[i]->ended == REPORT_RUNNING)
			paths[count++] = session->report.processes[i]->ledger;
	if (shows_driver_memory(session))
		sample(session, paths, count);
	free(paths);
}

static int report(struct session *session, struct operands *operands)
{
	bool on_stdout = !opt_text[OPTION_REPORT];
	int failed = operands->missing > 0;
	size_t before;

	if (session_files(session) < 0)
		return STATUS_USAGE;
	for (size_t i = 0; i < operands->list.count; i++)
		failed |= session_add(session, operands->list.files[i].path, NULL) < 0;
	failed |= session->report.count == 0;
	if (!session_choice.since && !session_choice.thread && !session_choice.address)
		/* a report on selected blocks shows no driver memory */
		sample_running(session, operands);
	/* After the ledgers were read, and before the output: a failed allocation ends the
	 * command. */
	rundir_clear_stale();
	report_sort(&session->report);
	if (gate_wanted()) {
		before = session->trouble_count;
		session_judge(session);
		session_print_verdict(session, stderr, "gpuleak: ");
		failed |= session->trouble_count > before; /* the baseline was not written */
	}
	/* If nothing was read, the report replaces an older file. On stdout, no text is printed,
	 * because stderr has the reason. */
	if (session->report.count > 0 || !on_stdout || opt_values.format != OPTION_FORMAT_TEXT)
		failed |= (on_stdout ? session_write(session, NULL)
				     : session_write_pattern(session, opt_values.report)) < 0;
	print_remaining(operands);
	return failed ? STATUS_NOTHING_READ : 0;
}

/* Does WORK on the ledgers of the operands. */
static int with_ledgers(char **operands, int count,
			int (*work)(struct session *session, struct operands *operands))
{
	AT_END(operands_finish) struct operands found = { 0 };
	AT_END(session_finish) struct session session = { 0 };

	flags_environment(OPTIONS_OF_REPORT & ~OPTION_BIT(OPTION_REPORT));
	if (refuses_choice() ||
	    session_refuses(opt_text[OPTION_REPORT] ? opt_values.report : NULL))
		return STATUS_USAGE;
	session_start(&session);
	operands_find(&found, operands, count);
	return work(&session, &found);
}

static int report_operands(char **operands, int count)
{
	AT_END(session_finish) struct session session = { 0 };

	if (!at_exit)
		return with_ledgers(operands, count, report);
	session_start(&session);
	return report_at_exit(&session, operands[0]);
}

#define ROW(flag, what, ...) { flag, OPTION_GROUP_CHOICE, OPTION_RANK_MORE, what, __VA_ARGS__ }
static const struct flags_extra extras[] = {
	FLAG_UPDATE_BASELINE,
	ROW("--at-exit", NULL, &at_exit),
	ROW("--remove", NULL, &remove_ledger),
	ROW("--since",
	    "only blocks that were allocated after the gpuleak_mark() that returned MARK", NULL,
	    set_since, "MARK", "a number that gpuleak_mark() returned"),
	ROW("--thread", "only blocks that this thread allocated", NULL, set_thread, "TID",
	    "the number of a thread, as gettid() says"),
	ROW("--address", "only blocks that contain this address, or that have this handle", NULL,
	    set_address, "ADDRESS", "an address or a handle: 0x7f1200000000"),
	ROW("--at",
	    "what was allocated at this time after the first GPU call, by call site; exact if the "
	    "program ran with --trace", NULL, set_at, "TIME", "a time such as 12.5s or 3m"),
	ROW("--between", "what was allocated and freed between two times, by call site", NULL,
	    set_between, "FROM..TO", "two times such as 10s..20s, the earlier one first"),
	FLAG_BY(OPTION_GROUP_CHOICE),
	ROW("--addresses", "list the address of each live block (--format json)",
	    &session_choice.addresses),
	{ NULL },
};

const struct flags_command command_report = {
	.name = "report",
	.summary = "report on a ledger, a directory of ledgers, or a process",
	.synopsis = "[options] LEDGER|DIRECTORY|PID...",
	.prose = "Reports on ledgers: on files, on all ledgers of a directory, on the ledger that\n"
		 "process PID writes or left behind, or on standard input (-).\n",
	.options = OPTIONS_OF_REPORT,
	.extras = extras,
	.report_to = "standard output",
	.tail = "exit status: 0 all was reported, 1 a ledger could not be read, 2 wrong usage,\n"
		"125 memory was short.\n",
	.operands_min = 1,
	.wanted = "name a ledger, a directory of ledgers, or the pid of a process",
	.usage_status = STATUS_USAGE,
	.main = report_operands,
};

/* ---- gpuleak check ---- */

static int check(struct session *session, struct operands *operands)
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
	return with_ledgers(operands, count, check);
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
