/* SPDX-License-Identifier: MIT
 *
 * gpuleak run: runs a program with the library preloaded into it and its children. Reports on
 * all processes, even if they were killed. Must not touch the program's input and output.
 * Changes its exit status only for a gate.
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "ledger/pattern.h"
#include "ledger/run_environment.h"
#include "report/util/abrupt_end.h"
#include "report/util/output.h"
#include "report/util/path.h"
#include "tools/commands.h"
#include "tools/doctor/doctor_checks.h"
#include "tools/flags.h"
#include "tools/launch/bypass.h"
#include "tools/launch/child.h"
#include "tools/launch/descendants.h"
#include "tools/launch/fake_gpu.h"
#include "tools/launch/library.h"
#include "tools/launch/preload_link.h"
#include "tools/launch/program.h"
#include "tools/launch/python_search.h"
#include "tools/launch/run_variables.h"
#include "tools/launch/system.h"
#include "tools/ledgers/archive.h"
#include "tools/ledgers/ledgers.h"
#include "tools/ledgers/lost.h"
#include "tools/ledgers/outer_run.h"
#include "tools/ledgers/rundir.h"
#include "tools/nvml/sampler.h"
#include "tools/periodic.h"
#include "tools/session.h"
#include "tools/unrecorded.h"

#define ORPHANS_WAIT_S 5
#define ORPHANS_POLL_MS 20
#define SAMPLER_WAIT_MS 300

/* Options that this command handles: they are removed from the program's environment. Other options
 * of a report are passed on, for reports on demand. */
#define OWN_OPTIONS                                                              \
	(OPTION_BIT(OPTION_REPORT) | OPTION_BIT(OPTION_LEDGER) | OPTION_BIT(OPTION_EXITCODE) | \
	 OPTION_BIT(OPTION_EVERY) | OPTION_BIT(OPTION_EVERY_QUIET) |                \
	 OPTION_BIT(OPTION_GEN_SUPPRESSIONS) |                                     \
	 OPTION_BIT(OPTION_BYPASS_POOLS) | OPTION_BIT(OPTION_FAKE_GPU) |           \
	 OPTION_BIT(OPTION_FAKE_KERNELS) | OPTIONS_OF_GATE)
#define ALL_OPTIONS (OPTION_BIT(OPTION_COUNT) - 1)

/* `gpuleak doctor --start` names a file: the reasons why this run could not record are appended to
 * it and not printed. */
static const char *reasons;

static int set_reasons(const char *text)
{
	reasons = text;
	return 0;
}

struct run {
	char **argv;
	struct program program;
	char library[PATH_MAX];
	char directory[PATH_MAX]; /* "": there is none, and nothing is recorded */
	struct roster *roster;    /* NULL: it could not be created */
	char roster_text[ROSTER_TEXT_MAX];
	char host[256];
	char report[PATH_MAX];    /* destination of the report; expanded when the pid is known */
	uint64_t bad_variables;
	bool keep_directory;
	bool not_written; /* a file that an option names could not be written */
	struct child child;
	struct outer_run outer;
	struct descendants descendants;
	struct bypass bypass;
	struct python_search search;
	bool no_gpu; /* the stand-ins are used */
	struct fake_gpu fake_gpu;
	struct session session;
	struct sampler sampler;
};

static struct run current_run; /* too large for the stack */

static const char *program_name(const struct run *run)
{
	return path_last(run->argv[0]);
}

static int expand(const char *pattern, int pid, const char *host, const char *program, char *ret)
{
	const struct pattern_values values = { pid, host, program, ledger_variable };

	return pattern_expand(pattern, &values, ret, PATH_MAX);
}

static int check_pattern(const struct run *run, enum option_id id, const char *pattern)
{
	char path[PATH_MAX];
	int r = expand(pattern, INT_MAX, run->host, program_name(run), path);

	if (r < 0)
		eprintf(stderr, "gpuleak: run: bad value '%s' of --%s: %s\n", pattern,
			option_rows[id].flag, r == -EINVAL ? "known are %p, %h, %e, %q{VAR} and %%"
							   : "the path is too long");
	return r;
}

/* Checks before the start that the file of option ID can be written, because the program may run
 * for hours. Creates the folders of a ledger. WHAT describes the file. Returns 0 or -EINVAL. */
static int check_file(const struct run *run, enum option_id id, const char *pattern,
		      const char *what)
{
	char path[PATH_MAX], of_another[PATH_MAX], error[PATH_MAX * 2];
	const char *slash;

	if (check_pattern(run, id, pattern) < 0)
		return -EINVAL;
	if (!*pattern || expand(pattern, INT_MAX, run->host, program_name(run), path) < 0 ||
	    expand(pattern, 1, run->host, id == OPTION_REPORT ? program_name(run) : "another",
		   of_another) < 0)
		return 0;
	slash = strrchr(path, '/');
	/* The pid is not known yet, and other files than the report are named after their process.
	 * So a folder with one of these in its name cannot be checked. */
	if (slash && strncmp(path, of_another, (size_t)(slash - path) + 1) != 0)
		return 0;
	if (id == OPTION_LEDGER)
		output_make_folders(path);
	if (output_check(path, what, error, sizeof(error)) == 0)
		return 0;
	print_error("%s; %s was not started", error, run->argv[0]);
	return -EINVAL;
}

static int check_files(const struct run *run)
{
	if (session_refuses(opt_values.report) ||
	    check_file(run, OPTION_REPORT, opt_values.report, "report") < 0 ||
	    check_file(run, OPTION_LEDGER, opt_values.ledger, "ledger") < 0 ||
	    check_file(run, OPTION_GEN_SUPPRESSIONS, opt_values.gen_suppressions,
		       "suppressions") < 0)
		return -EINVAL;
	return 0;
}

static int check_program(struct run *run)
{
	int r = program_find(run->argv[0], &run->program);

	if (r < 0) {
		eprintf(stderr, "gpuleak: cannot run %s: %s\n", run->argv[0],
			r == -ENOENT && !strchr(run->argv[0], '/') ? "not found in PATH"
								   : strerror(-r));
		return program_status(r);
	}
	if (run->program.deaf[0])
		eprintf(stderr, "gpuleak: %s; %s\n", run->program.deaf,
			run->program.refuses_library ? "it runs without gpuleak"
						     : "its own GPU calls will not be seen");
	return 0;
}

/* Creates the roster. Without it the gate fails, because a process that cannot record would not be
 * noticed. */
static void start_roster(struct run *run)
{
	int r = lost_create_roster(&run->roster, run->roster_text);

	if (r == 0) {
		/* check_program() has reported the command itself */
		run->roster->started = !run->program.deaf[0];
		return;
	}
	print_error("no shared memory for the list of processes (shmget): %s; `gpuleak doctor` "
		    "prints what to do", strerror(-r));
	session_trouble(&run->session, "not recorded completely: no shared memory for the list of "
			"processes (shmget): %s", strerror(-r));
}

/* Gives OPTION its value for --bypass-pools unless the user named one. */
static void set_for_bypass(struct run *run, enum option_id option, const char *value)
{
	if (opt_text[option])
		return;
	opt_text[option] = value;
	run->bad_variables &= ~OPTION_BIT(option);
}

/* Prepares --bypass-pools. Each array is then a block of its own, so the gate judges accumulation
 * of blocks as it otherwise judges that of suballocations. */
static void start_bypass(struct run *run)
{
	if (!opt_values.bypass_pools)
		return;
	bypass_start(&run->bypass, run->session.symbolizer);
	if (!opt_values.guard) /* it turns the pool off */
		set_for_bypass(run, OPTION_POOL, "fast");
	set_for_bypass(run, OPTION_ACCUMULATION, "on");
}

/* The pool and the guard each decide where a block lies. Returns 0, or -EINVAL with a line
 * printed. */
static int check_guard(void)
{
	if (!opt_values.guard || opt_values.pool == OPTION_POOL_OFF)
		return 0;
	print_error("--guard turns the pool off: leave out --pool %s (GPULEAK_POOL)",
		    option_word(OPTION_POOL, opt_values.pool));
	return -EINVAL;
}

/* Prepares --fake-gpu, which --fake-kernels includes. Returns 0, or -EINVAL with a line printed. */
static int start_fake_gpu(struct run *run)
{
	run->no_gpu = opt_values.fake_gpu || opt_values.fake_kernels;
	if (!run->no_gpu)
		return 0;
	return fake_gpu_start(&run->fake_gpu, run->program.path, opt_values.fake_kernels);
}

static int make_ready(struct run *run)
{
	char error[PATH_MAX * 2];
	int status;

	if (gethostname(run->host, sizeof(run->host) - 1) < 0)
		strcpy(run->host, "localhost");
	outer_run_find(&run->outer);
	run->bad_variables = flags_environment(ALL_OPTIONS);
	if (check_guard() < 0 || check_files(run) < 0)
		return STATUS_RUN_FAILED;
	session_start(&run->session);
	if (session_files(&run->session) < 0)
		return STATUS_RUN_FAILED;
	status = check_program(run);
	if (status)
		return status;
	if (library_find(run->library, sizeof(run->library), error, sizeof(error)) < 0) {
		print_error("cannot find the library: %s", error);
		return STATUS_RUN_FAILED;
	}
	if (start_fake_gpu(run) < 0)
		return STATUS_RUN_FAILED;
	start_bypass(run);
	if (opt_values.keepers)
		python_search_start(&run->search);
	rundir_clear_stale();
	if (rundir_create(run->directory, sizeof(run->directory), error, sizeof(error)) < 0) {
		/* The program runs anyway, but the gate fails. */
		run->directory[0] = '\0';
		print_error("nothing will be recorded: %s", error);
		session_trouble(&run->session, "nothing was recorded: %s", error);
	} else {
		start_roster(run);
		if (strcmp(opt_values.report, "none") != 0)
			sampler_start(&run->sampler, run->directory);
	}
	return 0;
}

static void preload(const struct run *run)
{
	run_variables_put_once("LD_PRELOAD", run->library, " :");
	/* The shared runtime of AddressSanitizer aborts a program if another library is loaded
	 * before it. gpuleak does not need that order, so this turns the check off. The user's
	 * settings follow and take precedence. */
	run_variables_put("ASAN_OPTIONS", "verify_asan_link_order=0");
	if (opt_values.follow == OPTION_SWITCH_ON)
		run_variables_set(run->library);
	else
		unsetenv(RUN_ENVIRONMENT);
}

/* Returns true if the program gets option ID as a variable. Reports on demand have the format that
 * the path of --report implies only if they go there. */
static bool passes_on(int id)
{
	return opt_text[id] && !(OWN_OPTIONS & OPTION_BIT(id)) &&
	       !(id == OPTION_FORMAT && opt_format_implied && opt_text[OPTION_REPORT_NOW]);
}

/* Prepares the environment in the child before exec. */
static void prepare(void *data)
{
	const struct run *run = data;
	char name[64], pattern[RUNDIR_PATTERN_MAX];

	sigaction(SIGPIPE, &pipe_before, NULL);
	sigaction(SIGXFSZ, &file_limit_before, NULL);
	run_variables_begin();
	unsetenv("GPULEAK_LIBRARY");
	for (int id = 0; id < OPTION_COUNT; id++) {
		snprintf(name, sizeof(name), "GPULEAK_%s", option_rows[id].name);
		if (run->bad_variables & OPTION_BIT(id))
			unsetenv(name);
		else if (passes_on(id))
			setenv(name, opt_text[id], 1);
	}
	unsetenv("GPULEAK_BYPASS");
	if (opt_values.bypass_pools)
		bypass_prepare(&run->bypass, run->directory);
	if (opt_values.keepers)
		python_search_prepare(&run->search);
	if (run->no_gpu)
		fake_gpu_prepare(&run->fake_gpu);
	if (!run->directory[0])
		return;
	rundir_pattern(run->directory, pattern);
	setenv("GPULEAK_LEDGER", pattern, 1);
	if (run->roster)
		setenv("GPULEAK_ROSTER", run->roster_text, 1);
	else
		unsetenv("GPULEAK_ROSTER");
	/* The library itself starts reports on demand. They go to the destination of this command's
	 * report. */
	if (!opt_text[OPTION_REPORT_NOW])
		setenv("GPULEAK_REPORT_NOW", opt_values.report, 1);
	setenv("GPULEAK_REPORT", "none", 1);
	setenv("GPULEAK_EXITCODE", "0", 1);
	if (!run->program.refuses_library)
		preload(run);
}

/* Waits for the command to end, and reads its processes' ledgers periodically. */
static void wait_and_watch(struct run *run)
{
	const int to_file = strcmp(opt_values.report, "stderr") != 0 &&
			    strcmp(opt_values.report, "none") != 0 &&
			    opt_values.format != OPTION_FORMAT_TEXT;
	char report[PATH_MAX];
	struct watch watch = {
		.directory = run->directory,
		.suppressions = opt_values.suppressions,
		.every_ms = opt_values.every,
		.report = to_file && expand(opt_values.report, run->child.pid, run->host,
					    program_name(run), report) == 0
				  ? report
				  : NULL,
	};

	if (!opt_values.every || !run->directory[0]) {
		child_wait(&run->child);
		return;
	}
	while (!child_wait_for(&run->child, opt_values.every))
		watch_read(&watch);
	watch_finish(&watch);
}

/* Returns the number of running processes that have a ledger in the run's directory. */
static size_t count_running(const struct run *run)
{
	AT_END(ledgers_finish) struct ledger_list list = { 0 };
	size_t running = 0;

	ledgers_add_directory(&list, run->directory);
	for (size_t i = 0; i < list.count; i++)
		running += process_runs(list.files[i].pid, list.files[i].start_ticks);
	return running;
}

/* Waits briefly for processes that use the GPU and outlive the program. With a gate also waits for
 * other orphans, because they may still make GPU calls and the result must not depend on timing. */
static void wait_for_orphans(struct run *run)
{
	struct timespec now;
	int left = child_reap(&run->child, 0);

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (time_t end = now.tv_sec + ORPHANS_WAIT_S; left && !run->child.stopped &&
	     now.tv_sec < end && (gate_wanted() || count_running(run) > 0);
	     clock_gettime(CLOCK_MONOTONIC, &now))
		left = child_reap(&run->child, ORPHANS_POLL_MS);
	if (left) /* a process that count_running() saw to have ended may not be reaped yet */
		left = child_reap(&run->child, 0);
	descendants_look(&run->descendants, true);
	/* A process may make its first GPU call later, and then it needs the directory. */
	run->keep_directory |= left;
	if (left && gate_wanted())
		print_error("processes that %s left behind still run: their further calls are not "
			    "in any report", program_name(run));
}

/* Sets how PROCESS ended. If it was killed, the ledger does not have this, but this command reaped
 * the process. */
static void print_end_of(const struct run *run, const struct ledger_file *file,
			 struct report_process *process)
{
	int status;

	if ((process->ended != REPORT_RUNNING && process->ended != REPORT_UNKNOWN) ||
	    !child_end_of(&run->child, file->pid, file->start_ticks, &status))
		return;
	if (WIFSIGNALED(status))
		report_process_set_ended(process, REPORT_SIGNAL, WTERMSIG(status));
	else
		report_process_set_ended(process, REPORT__EXIT, WEXITSTATUS(status));
}

/* Returns true if FILE is the ledger of a program started by exec. After exec, .1, .2 ... is
 * appended to the name. */
static bool is_later_image(const struct ledger_file *file)
{
	return strcmp(strrchr(file->path, '.'), ".gpuleak") != 0;
}

/* Moves FILE to the path of --ledger. PROCESS is NULL if the ledger could not be read. */
static void keep_process(struct run *run, const struct ledger_file *file,
			 struct report_process *process)
{
	char wanted[PATH_MAX], got[PATH_MAX + 16];
	bool running = process && process->ended == REPORT_RUNNING;
	int r = expand(opt_values.ledger, file->pid, run->host,
		       process ? process->program : program_name(run), wanted);

	if (r == 0)
		r = keep_ledger(file->path, wanted, running ? KEEP_BY_COPY : KEEP_BY_MOVE, got,
				sizeof(got));
	if (r < 0) {
		print_error("cannot keep the ledger at %s: %s; it stays at %s", opt_values.ledger,
			    strerror(-r), file->path);
		run->keep_directory = true;
	} else if (strcmp(got, wanted) != 0 && !is_later_image(file)) {
		print_error("%s is there already; the ledger is kept at %s", wanted, got);
	}
}

static void gather_one(struct run *run, const struct ledger_file *file)
{
	struct report_process *process = NULL;

	if (session_add(&run->session, file->path, &process) == 0) {
		print_end_of(run, file, process);
		sampler_attach(&run->sampler, process);
	}
	outer_run_add(&run->outer, file->path);
	if (process && process->ended == REPORT_RUNNING) {
		print_error("process %d still runs; `gpuleak report %d` reports on it", file->pid,
			    file->pid);
		run->keep_directory = true;
	}
	if (opt_values.ledger[0])
		keep_process(run, file, process);
	else if (!process || process->ended != REPORT_RUNNING)
		unlink(file->path); /* remove it now, because the directory may have to remain */
}

static void append_reason(const char *sentence)
{
	AT_END(close_file) FILE *to = fopen(reasons, "ae");

	if (to)
		fprintf(to, "%s\n", sentence);
}

/* Adds SENTENCE, which says what this run could not record, to the report and to the gate's
 * reasons. lost_find() calls this for each process that made GPU calls and has no ledger.
 * bypass_report() calls it for each framework's cache that --bypass-pools could not switch off. */
static void incomplete(void *data, const char *sentence)
{
	struct run *run = data;

	session_trouble(&run->session, "%s", sentence);
	report_add_note(&run->session.report, sentence);
	if (reasons)
		append_reason(sentence);
	else if (!gate_wanted() &&
	    (run->session.report.count == 0 || opt_values.format != OPTION_FORMAT_TEXT ||
	     strcmp(opt_values.report, "stderr") != 0)) /* otherwise the report contains it */
		session_print_sentence(stderr, "gpuleak: ", "", sentence);
}

static void gather(struct run *run)
{
	AT_END(ledgers_finish) struct ledger_list list = { 0 };
	int r;

	if (!run->directory[0])
		return;
	r = ledgers_add_directory(&list, run->directory);
	if (r < 0)
		session_trouble(&run->session, "%s: %s", run->directory, strerror(-r));
	for (size_t i = 0; i < list.count; i++)
		gather_one(run, &list.files[i]);
	if (run->roster)
		lost_find(run->roster, &list, run->directory, incomplete, run);
	outer_run_finish(&run->outer, run->roster);
	unrecorded_find(&run->descendants, &list, incomplete, run);
	report_sort(&run->session.report);
	if (opt_values.bypass_pools)
		bypass_report(&run->bypass, &run->session.report, run->directory, incomplete, run);
	if (opt_values.keepers)
		python_search_report(&run->search, &run->session.report);
}

static int gate_status(enum judge_verdict verdict)
{
	return verdict == JUDGE_FAILED && opt_values.exitcode ? (int)opt_values.exitcode
							      : (int)verdict;
}

static int final_status(const struct run *run, enum judge_verdict verdict)
{
	int own = child_exit_status(&run->child);

	if (own != 0)
		return own;
	if (run->not_written && verdict == JUDGE_CLEAN)
		return STATUS_RUN_FAILED;
	return gate_wanted() ? gate_status(verdict) : 0;
}

/* Ends the run without a report: the program that runs must not notice. */
static void wait_before_end(void)
{
	struct child *child = &current_run.child;

	if (child->pid <= 0)
		return;
	if (!child->ended)
		child_wait(child);
	if (child_exit_status(child) != 0)
		abrupt_end_status = child_exit_status(child);
}

static void prepare_abrupt_end(const struct run *run)
{
	static char advice[PATH_MAX + 64];

	abrupt_end_status = gate_wanted() ? gate_status(JUDGE_FAILED) : STATUS_RUN_FAILED;
	abrupt_end_before = wait_before_end;
	if (!run->directory[0])
		return;
	snprintf(advice, sizeof(advice), "; free memory, and try `gpuleak report %s`",
		 run->directory);
	abrupt_end_advice = advice;
}

/* Returns true if nothing was recorded and the reason was not printed yet. */
static bool saw_nothing(const struct run *run)
{
	return run->session.report.count == 0 && run->session.trouble_count == 0 &&
	       !run->program.deaf[0] && strcmp(opt_values.report, "none") != 0;
}

/* Returns true if the report is written. If nothing was recorded, only a gate needs it: it must
 * replace the file of an earlier run. On stderr, a line then stands for the text report. */
static bool writes_report(const struct run *run)
{
	return run->session.report.count > 0 ||
	       (gate_wanted() && (opt_values.format != OPTION_FORMAT_TEXT ||
				  strcmp(opt_values.report, "stderr") != 0));
}

/* Writes the report. If it is about processes, prints a line that names its file. */
static void write_report(struct run *run)
{
	if (!writes_report(run) || expand(opt_values.report, run->child.pid, run->host,
					  program_name(run), run->report) < 0)
		return;
	if (session_write(&run->session, run->report) < 0)
		/* not an error for stderr, because the program may have closed it */
		run->not_written = strcmp(run->report, "stderr") != 0;
	else if (run->session.report.count > 0)
		session_print_written(&run->session, run->report);
}

/* Prints a hint if the program failed without a GPU call, and there is no driver. */
static void print_no_driver(const struct run *run)
{
	if (run->no_gpu || child_exit_status(&run->child) == 0 || doctor_finds_driver())
		return;
	print_error("no CUDA driver works on this machine; `gpuleak doctor --fake-gpu %s` checks "
		    "if --fake-gpu helps", run->argv[0]);
}

static int report(struct run *run)
{
	enum judge_verdict verdict = JUDGE_CLEAN;

	if (gate_wanted())
		verdict = session_judge(&run->session);
	if (gate_wanted() && session_verdict_is_first(&run->session))
		session_print_verdict(&run->session, stderr, "gpuleak: ");
	write_report(run);
	if (verdict == JUDGE_NOTHING)
		print_error("nothing to judge: no GPU call was seen in %s; `gpuleak doctor %s` "
			    "checks what may be the reason", run->argv[0], run->argv[0]);
	else if (gate_wanted())
		session_print_verdict(&run->session, stderr, "gpuleak: ");
	else if (saw_nothing(run))
		print_error("no GPU call was seen in %s; `gpuleak doctor %s` checks what may be "
			    "the reason", run->argv[0], run->argv[0]);
	if (verdict == JUDGE_NOTHING || (!gate_wanted() && saw_nothing(run)))
		print_no_driver(run);
	if (gate_wanted() || strcmp(opt_values.report, "none") != 0)
		unrecorded_print_count(&run->descendants, run->roster);
	return final_status(run, verdict);
}

static void look(void *data, bool ended)
{
	struct run *run = data;

	descendants_look(&run->descendants, ended);
	preload_link_keep();
}

/* Looks at the processes of the run from now on. */
static void start_looking(struct run *run)
{
	if (!run->directory[0])
		return;
	if (run->program.deaf[0])
		run->descendants.deaf_pid = run->child.pid;
	run->child.look = look;
	run->child.look_data = run;
}

/* Runs the program and processes its ledgers. */
static int record(struct run *run)
{
	int r, status;

	prepare_abrupt_end(run);
	r = child_start(&run->child, run->argv, prepare, run);
	if (r < 0) {
		print_error("cannot run %s: %s%s", run->argv[0], strerror(-r),
			    r == -ENOENT ? " (is its interpreter or loader missing?)" : "");
		status = program_status(r);
	} else {
		start_looking(run);
		wait_and_watch(run);
		if (run->directory[0])
			wait_for_orphans(run);
		sampler_finish(&run->sampler, SAMPLER_WAIT_MS);
		child_release_signals(&run->child);
		gather(run);
		status = report(run);
		child_finish(&run->child);
	}
	if (run->directory[0] && !run->keep_directory)
		rundir_remove(run->directory);
	return status;
}

static int run(char **operands, int count)
{
	struct run *run = &current_run;
	int status;

	(void)count;
	run->argv = operands;
	status = make_ready(run);
	if (status == 0)
		status = record(run);
	sampler_finish(&run->sampler, 0);
	outer_run_finish(&run->outer, NULL);
	descendants_finish(&run->descendants);
	session_finish(&run->session);
	bypass_finish(&run->bypass);
	return status;
}

static const struct flags_extra extras[] = {
	FLAG_GATE,
	FLAG_UPDATE_BASELINE,
	{ "--reasons", OPTION_GROUP_REPORT, OPTION_RANK_MORE, NULL, NULL, set_reasons, "FILE",
	  "a file" },
	{ NULL },
};

const struct flags_command command_run = {
	.name = "run",
	.summary = "run a program and report the GPU memory that it leaks",
	.synopsis = "[options] [--] PROGRAM [ARGUMENT...]",
	.prose = "Runs PROGRAM and records its GPU memory, and that of every process that it\n"
		 "starts. Reports when PROGRAM ends, also if a signal kills it.\n",
	.options = ALL_OPTIONS,
	.extras = extras,
	.stop_at_operand = true,
	.report_to = "stderr",
	.tail = "exit status: PROGRAM's own if it is not 0 (128+N if signal N killed it);\n"
		"otherwise, with --gate or an option that implies it (`gpuleak help gate`):\n"
		"0 clean, 23 (or --exitcode) the gate failed, 24 no GPU call was seen.\n"
		"125 gpuleak failed or the report could not be written, 126 PROGRAM cannot be\n"
		"run, 127 PROGRAM was not found.\n",
	.tail_of_all = "--bypass-pools sets or calls:\n"
#define BYPASS(framework, setting, cache, memory, import, changes) \
	"  " framework ": " setting "\n"
#include "tools/launch/bypass.def"
#undef BYPASS
	,
	.operands_min = 1,
	.wanted = "no program given; try `gpuleak run -- ./app`",
	.usage_status = STATUS_RUN_FAILED,
	.main = run,
};
