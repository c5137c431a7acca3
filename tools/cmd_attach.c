/* SPDX-License-Identifier: MIT
 *
 * gpuleak attach: records in a process that already runs, until a time has passed, a signal or
 * `gpuleak attach --detach` requests the end, or the process ends. Then reports as `gpuleak run`
 * does. Must leave the process as it was.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ledger/format.h"
#include "ledger/pattern.h"
#include "ledger/process_stat.h"
#include "report/symbols/symbolize.h"
#include "report/util/escape.h"
#include "report/util/memory.h"
#include "report/util/text_buffer.h"
#include "tools/attach/place.h"
#include "tools/attach/request.h"
#include "tools/attach/target.h"
#include "tools/commands.h"
#include "tools/flags.h"
#include "tools/launch/library.h"
#include "tools/launch/process.h"
#include "tools/ledgers/archive.h"
#include "tools/ledgers/ledgers.h"
#include "tools/ledgers/rundir.h"
#include "tools/nvml/sampler.h"
#include "tools/periodic.h"
#include "tools/session.h"

#define SAMPLER_WAIT_MS 1000
#define LOOK_MS 100
#define DETACH_MS 20000       /* the search of a process with much memory takes seconds */
#define STEPS 16              /* the rule for growth looks at so many */
#define STEP_MS 1000          /* interval of steps without --for */
#define STEP_MIN_MS 100

/* Options that the command itself follows. All others of ATTACH_OPTIONS are settings of the
 * recording. */
#define OWN_OPTIONS                                                                         \
	(OPTIONS_OF_REPORT | OPTION_BIT(OPTION_LEDGER) | OPTION_BIT(OPTION_EXITCODE) |      \
	 OPTION_BIT(OPTION_EVERY) | OPTION_BIT(OPTION_EVERY_QUIET))
#define ATTACH_OPTIONS                                                                       \
	((OWN_OPTIONS & ~OPTION_BIT(OPTION_MAX_LEAKED_BYTES)) |                              \
	 OPTION_BIT(OPTION_LSAN_SUPPRESSIONS) | OPTION_BIT(OPTION_STACK_DEPTH) |             \
	 OPTION_BIT(OPTION_DEEPBIND) | OPTION_BIT(OPTION_SUBALLOCATIONS) |                   \
	 OPTION_BIT(OPTION_ACCUMULATION) | OPTION_BIT(OPTION_STEP_EVERY) |                   \
	 OPTION_BIT(OPTION_TRACE) | OPTION_BIT(OPTION_RANGES_AS_NAMED))

static long long for_ms; /* --for; 0: until a signal */
static bool only_detach, with_tree; /* --detach, --tree */

struct attached_process { /* one process */
	struct target target;
	unsigned long long start_ticks;
	struct attach_place place;
	bool shares_place; /* its ledger is in the folder of the first one */
	bool has_ended;    /* its recording */
};

static struct attachment {
	struct attached_process *list; /* the first one is the process that the user named */
	size_t count;
	char library[PATH_MAX];
	struct session session;
	struct sampler sampler;
	bool not_written;
} current;

static int set_for(const char *text)
{
	return option_duration(text, &for_ms) == 0 && for_ms > 0 ? 0 : -1;
}

/* ---- beginning ---- */

/* Appends GPULEAK_NAME=VALUE. Returns false if VALUE is no line. */
static bool add_setting(FILE *to, const char *name, const char *value)
{
	if (strchr(value, '\n'))
		print_error("attach: the value of GPULEAK_%s has a line break", name);
	else
		fprintf(to, "GPULEAK_%s=%s\n", name, value);
	return !strchr(value, '\n');
}

/* Growth is judged from step to step. So without steps of the program, there are as many as the
 * rule needs. */
static void add_steps(FILE *to)
{
	const long long most = option_rows[OPTION_STEP_EVERY].maximum;
	long long ms = for_ms ? for_ms / STEPS : STEP_MS;

	ms = ms < STEP_MIN_MS ? STEP_MIN_MS : ms > most ? most : ms;
	if (!opt_text[OPTION_STEP_EVERY])
		fprintf(to, "GPULEAK_STEP_EVERY=%lldms\n", ms);
	if (!opt_text[OPTION_ACCUMULATION])
		fputs("GPULEAK_ACCUMULATION=on\n", to);
}

/* Returns the settings of the recording in ATTACHED, or NULL. The caller frees them. */
static char *settings_of(const struct attached_process *attached)
{
	char pattern[RUNDIR_PATTERN_MAX];
	struct text_buffer lines;
	bool good = true;

	rundir_pattern(attached->place.inside, pattern);
	text_buffer_begin(&lines);
	good &= add_setting(lines.out, "LEDGER", pattern);
	fputs("GPULEAK_REPORT=none\n", lines.out);
	for (int id = 0; id < OPTION_COUNT; id++)
		if (opt_text[id] && (ATTACH_OPTIONS & ~OWN_OPTIONS & OPTION_BIT(id)))
			good &= add_setting(lines.out, option_rows[id].name, opt_text[id]);
	add_steps(lines.out);
	good &= add_setting(lines.out, "FOLDER", attached->place.inside);
	fprintf(lines.out, "GPULEAK_BEFORE=%llu\n%s",
		(unsigned long long)sampler_of_process(attached->target.pid),
		with_tree ? "GPULEAK_TREE=1\n" : "");
	text_buffer_end(&lines);
	if (good)
		return lines.text;
	text_buffer_finish(&lines);
	return NULL;
}

/* Finds the folder of the ledger of ONE. Returns true, or false with the reason in ERROR. */
static bool find_place(struct attachment *all, struct attached_process *one, char *error,
		       size_t size)
{
	one->shares_place = one != all->list &&
			    attach_place_fits(&all->list[0].place, &one->target, all->library);
	if (!one->shares_place)
		return attach_place_make(&one->place, &one->target, all->library, error,
					 size) == 0;
	one->place = all->list[0].place;
	return true;
}

/* Begins recording in process PID. Returns true, or false with a line printed; no line if IS_CHILD
 * and the process uses no GPU. */
static bool begin(struct attachment *all, int pid, bool is_child)
{
	struct attached_process *one = LIST_ADD(all->list, all->count);
	char error[PATH_MAX + REQUEST_ERROR_SIZE] = "";
	char *settings = NULL;
	bool good;

	memset(one, 0, sizeof(*one));
	one->place.fd = -1;
	target_read("/proc", pid, &one->target);
	one->start_ticks = process_start_ticks(pid);
	good = !attach_is_recorded(pid, error, sizeof(error)) &&
	       !target_refuses(&one->target, geteuid(), error, sizeof(error)) &&
	       find_place(all, one, error, sizeof(error));
	if (good) {
		settings = settings_of(one);
		good = settings &&
		       attach_request(&one->target, one->place.library, settings, error);
		attach_place_forget_library(&one->place);
		free(settings);
	}
	if (good)
		return true;
	if (*error && (!is_child || one->target.has_driver))
		print_error("attach: process %d%s%s%s: %s", pid, one->target.name[0] ? " (" : "",
			    one->target.name, one->target.name[0] ? ")" : "", error);
	if (!one->shares_place)
		attach_place_remove(&one->place);
	all->count--;
	return false;
}

/* Returns true if PARENT is among the ancestors of PID. */
static bool is_below(int pid, int parent)
{
	struct process_stat stat;

	for (int i = 0; i < 64 && pid > 1; i++) {
		if (process_stat_read(pid, &stat) < 0)
			return false;
		pid = stat.parent;
		if (pid == parent)
			return true;
	}
	return false;
}

/* Begins recording in each descendant of the process that the user named. Without --tree returns
 * one of those that have loaded a driver, or 0. */
static int visit_below(struct attachment *all)
{
	const int pid = all->list[0].target.pid;
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	struct target target;
	int ret = 0;

	while (dir && (entry = readdir(dir)) != NULL) {
		int its = ledgers_pid(entry->d_name);

		if (its <= 0 || its == (int)getpid() || !is_below(its, pid))
			continue;
		if (with_tree)
			begin(all, its, true);
		else if (target_read("/proc", its, &target), target.has_driver)
			ret = its;
	}
	if (dir)
		closedir(dir);
	return ret;
}

/* ---- recording ---- */

/* Notes which recordings have ended. Returns true if all have. */
static bool all_ended(struct attachment *all)
{
	bool ended = true;

	for (size_t i = 0; i < all->count; i++) {
		struct attached_process *one = &all->list[i];
		struct ledger_list list = { 0 };

		one->has_ended |= !process_runs(one->target.pid, one->start_ticks);
		if (!one->has_ended)
			ledgers_add_directory(&list, one->place.here);
		for (size_t j = 0; j < list.count; j++)
			one->has_ended |= list.files[j].pid == one->target.inner_pid &&
					  list.files[j].ended == LEDGER_DETACHED;
		ledgers_finish(&list);
		ended &= one->has_ended;
	}
	return ended;
}

/* The signals that end the recording. */
static sigset_t block_signals(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	return signals;
}

static void wait_for_end(struct attachment *all, const sigset_t *signals)
{
	const struct timespec look = { .tv_nsec = LOOK_MS * 1000000L };
	const long long began = clock_ms();
	long long next = began + opt_values.every;
	struct watch watch = { .directory = all->list[0].place.here,
			       .suppressions = opt_values.suppressions,
			       .every_ms = opt_values.every };

	while (!all_ended(all) && (!for_ms || clock_ms() - began < for_ms) &&
	       sigtimedwait(signals, NULL, &look) < 0) {
		if (!opt_values.every || clock_ms() < next)
			continue;
		watch_read(&watch);
		next += opt_values.every;
	}
	watch_finish(&watch);
}

/* Ends the recordings that have not ended. */
static void detach_all(struct attachment *all)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 100000L };
	const long long until = clock_ms() + DETACH_MS;

	for (size_t i = 0; i < all->count; i++)
		attach_place_unlock(&all->list[i].place);
	while (!all_ended(all) && clock_ms() < until)
		nanosleep(&pause, NULL);
	for (size_t i = 0; i < all->count; i++) {
		if (all->list[i].has_ended)
			continue;
		print_error("attach: process %d still records; it ends that by itself as soon as "
			    "it can run", all->list[i].target.pid);
		session_trouble(&all->session, "process %d still records", all->list[i].target.pid);
	}
}

/* ---- the report ---- */

/* Moves the ledger FILE to the path of --ledger. */
static void keep(const char *file, const struct report_process *process)
{
	const struct pattern_values values = { process->pid, process->host ? process->host : "",
					       process->program, ledger_variable };
	char wanted[PATH_MAX], got[PATH_MAX + 16];
	int r = pattern_expand(opt_values.ledger, &values, wanted, sizeof(wanted));

	if (r == 0)
		r = keep_ledger(file, wanted, KEEP_BY_COPY, got, sizeof(got));
	if (r < 0)
		print_error("cannot keep the ledger at %s: %s", opt_values.ledger, strerror(-r));
	else if (strcmp(got, wanted) != 0)
		print_error("%s is there already; the ledger is kept at %s", wanted, got);
}

static void gather(struct attachment *all)
{
	for (size_t i = 0; i < all->count; i++) {
		struct ledger_list list = { 0 };
		struct report_process *process;

		symbolizer_add_process(all->session.symbolizer, all->list[i].target.pid);
		if (!all->list[i].shares_place)
			ledgers_add_directory(&list, all->list[i].place.here);
		for (size_t j = 0; j < list.count; j++) {
			if (session_add(&all->session, list.files[j].path, &process) < 0)
				continue;
			sampler_attach(&all->sampler, process);
			if (opt_values.ledger[0])
				keep(list.files[j].path, process);
		}
		ledgers_finish(&list);
	}
	report_sort(&all->session.report);
}

static int report(struct attachment *all)
{
	enum judge_verdict verdict = JUDGE_CLEAN;

	if (gate_wanted())
		verdict = session_judge(&all->session);
	all->not_written = session_write_pattern(&all->session, opt_values.report) < 0;
	if (gate_wanted())
		session_print_verdict(&all->session, stderr, "gpuleak: ");
	if (verdict == JUDGE_FAILED && opt_values.exitcode)
		return (int)opt_values.exitcode;
	return verdict == JUDGE_CLEAN && all->not_written ? STATUS_RUN_FAILED
	       : gate_wanted()				  ? (int)verdict
							  : 0;
}

/* ---- the command ---- */

/* Lets the command that records process PID end that. */
static int detach(int pid)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 100000L };
	struct target target;

	target_read("/proc", pid, &target);
	if (!target.command)
		print_error("attach: process %d: %s", pid,
			    target.memory_error == EACCES || target.memory_error == EPERM
				    ? "cannot be read; run gpuleak as root"
				    : "no `gpuleak attach` of this system records it");
	else if (kill(target.command, SIGTERM) < 0)
		print_error("attach: process %d: its `gpuleak attach`, process %d: %s", pid,
			    target.command, strerror(errno));
	else
		while (process_runs(target.command, 0))
			nanosleep(&pause, NULL);
	return target.command && !process_runs(target.command, 0) ? 0 : STATUS_RUN_FAILED;
}

/* Prints what is recorded, and how long. BELOW is a process that is not recorded and uses a driver,
 * or 0. */
static void print_beginning(const struct attachment *all, int below)
{
	const struct target *first = &all->list[0].target;
	bool has_driver = false;

	eprintf(stderr, "gpuleak: recording process %d (%s)", first->pid, first->name);
	if (all->count > 1)
		fprintf(stderr, " and %zu below it", all->count - 1);
	if (for_ms)
		fprintf(stderr, " for %g s; Ctrl-C ends that earlier\n", (double)for_ms / 1000);
	else
		fputs("; Ctrl-C ends that\n", stderr);
	for (size_t i = 0; i < all->count; i++)
		has_driver |= all->list[i].target.has_driver;
	if (!has_driver)
		eprintf(stderr, "gpuleak: process %d (%s) has loaded neither CUDA nor OpenCL "
			"so far", first->pid, first->name);
	if (!has_driver && below)
		fprintf(stderr, ", but process %d below it has: use --tree", below);
	if (!has_driver)
		fputc('\n', stderr);
}

/* Records process PID and prints the report. */
static int record(struct attachment *all, int pid)
{
	const sigset_t signals = block_signals();
	int status = STATUS_RUN_FAILED;

	if (begin(all, pid, false)) {
		print_beginning(all, visit_below(all));
		sampler_start(&all->sampler, all->list[0].place.here);
		wait_for_end(all, &signals);
		detach_all(all);
		sampler_finish(&all->sampler, SAMPLER_WAIT_MS);
		gather(all);
		status = report(all);
	}
	for (size_t i = 0; i < all->count; i++)
		if (!all->list[i].shares_place)
			attach_place_remove(&all->list[i].place);
	return status;
}

static int attach(char **operands, int count)
{
	struct attachment *all = &current;
	const int pid = ledgers_pid(operands[0]);
	char error[PATH_MAX * 2];
	int status = STATUS_RUN_FAILED;

	(void)count;
	if (pid <= 0 || pid == INT_MAX) {
		print_error("attach: %s is not the pid of a process", operands[0]);
		return STATUS_RUN_FAILED;
	}
	if (only_detach)
		return detach(pid);
	flags_environment(ATTACH_OPTIONS);
	if (session_refuses(opt_values.report))
		return STATUS_RUN_FAILED;
	rundir_clear_stale();
	session_start(&all->session);
	if (library_find(all->library, sizeof(all->library), error, sizeof(error)) < 0)
		print_error("cannot find the library: %s", error);
	else if (session_files(&all->session) == 0)
		status = record(all, pid);
	session_finish(&all->session);
	free(all->list);
	return status;
}

#define ROW(flag, what, ...) { flag, OPTION_GROUP_RUNNING, OPTION_RANK_FIRST, what, __VA_ARGS__ }
#define MORE(flag, what, target) { flag, OPTION_GROUP_RUNNING, OPTION_RANK_MORE, what, target }
static const struct flags_extra extras[] = {
	FLAG_GATE,
	FLAG_UPDATE_BASELINE,
	ROW("--for", "how long to record (default: until Ctrl-C, or until the process ends)", NULL,
	    set_for, "TIME", "a duration such as 60s, 5m or 1h"),
	MORE("--detach", "end the recording of another `gpuleak attach`, which then reports",
	    &only_detach),
	MORE("--tree", "also record the processes below PID, and those that they start",
	    &with_tree),
	{ NULL },
};

const struct flags_command command_attach = {
	.name = "attach",
	.summary = "record a process that already runs, and report",
	.synopsis = "[options] PID",
	.prose = "Loads the library into process PID, records its GPU memory from then on, leaves\n"
		 "the process as it was, and reports. If this command is killed, the process ends\n"
		 "the recording by itself. Blocks that were allocated before have no\n"
		 "record, so leaks are not judged: growth, accumulation, invalid frees and\n"
		 "requests that ran out of memory are. Needs the right to trace the process;\n"
		 "`gpuleak doctor PID` checks that. `gpuleak help attach` explains the rest.\n",
	.options = ATTACH_OPTIONS,
	.extras = extras,
	.report_to = "stderr",
	.tail = "exit status: 0; with --gate or an option that implies it: 23 (or --exitcode) the\n"
		"gate failed, 24 nothing was allocated meanwhile. 125 gpuleak could not attach,\n"
		"or the report could not be written.\n",
	.operands_min = 1,
	.operands_max = 1,
	.wanted = "name the pid of one process",
	.usage_status = STATUS_RUN_FAILED,
	.main = attach,
};
