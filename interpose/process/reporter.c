/* SPDX-License-Identifier: MIT
 *
 * Runs the gpuleak command on this process's ledger, in a process that the application never
 * notices: no SIGCHLD, no child for its wait(), none of its preloads or library paths. If that
 * fails, the library reports by itself.
 */
#include "interpose/process/reporter.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/base/config.h"
#include "interpose/base/library_directory.h"
#include "interpose/block/deferred_totals.h"
#include "interpose/dispatch/api.h"
#include "ledger/nocancel.h"
#include "interpose/process/start.h"
#include "ledger/error_text.h"
#include "ledger/roster.h"
#include "interpose/base/message.h"
#include "interpose/recorder/live_bytes.h"

#define GATE_FAILED 23
/* What run_command() returns if there is no exit status: the command did not start, or a signal
 * ended it. */
#define NOT_STARTED 127
#define NO_STATUS 256
#define NO_MEMORY 125
#define STACK_BYTES 65536u
#define ENVIRONMENT_MAX 4096
#define FLAG_MAX 48

/* The places of the command, relative to the library's directory: installed, and in the build. */
static const char *const command_places[] = { GPULEAK_BINDIR_FROM_LIBDIR "/gpuleak",
					      "../tools/gpuleak" };

bool reporter_find_command(char *ret, size_t size)
{
	const char *library = library_directory();
	size_t at = strlen(library);

	for (size_t i = 0; at && i < sizeof(command_places) / sizeof(command_places[0]); i++) {
		if (at + strlen(command_places[i]) >= size)
			continue;
		memcpy(ret, library, at);
		strcpy(ret + at, command_places[i]);
		if (access(ret, X_OK) == 0)
			return true;
	}
	if (strlen(GPULEAK_COMMAND) >= size)
		return false;
	strcpy(ret, GPULEAK_COMMAND);
	return access(ret, X_OK) == 0;
}

struct job {
	const char *command;
	char **arguments;
	char **environment;
	const struct recorder *input; /* whose ledger the command reads from its input, or NULL */
	int input_fds[2];             /* a pipe for that */
	int output_fd; /* the command's standard output; -1: the application's */
	sigset_t signals;
	int status;
};

static int start_command(void *data)
{
	struct job *job = data;

	if (job->output_fd == 1)
		syscall(SYS_fcntl, 1, F_SETFD, 0);
	else if (job->output_fd >= 0)
		dup2(job->output_fd, 1);
	if (job->input && job->input_fds[0] == 0)
		syscall(SYS_fcntl, 0, F_SETFD, 0);
	else if (job->input)
		dup2(job->input_fds[0], 0);
	sigprocmask(SIG_SETMASK, &job->signals, NULL);
	/* Not by the wrapper, which would put the variables of `gpuleak run` back. Another
	 * preload's wrapper may fail here: compute-sanitizer's ends the process, which shares its
	 * memory. */
	syscall(SYS_execve, job->command, job->arguments, job->environment);
	_exit(NOT_STARTED);
}

/* Writes the ledger into the pipe. A memfd is not used, because the limit on file sizes applies to
 * it, too. */
static void feed(struct job *job)
{
	nocancel_close(job->input_fds[0]);
	write_all(job->input_fds[1], (const char *)job->input->writer.base,
		  (size_t)job->input->header->chunks * LEDGER_CHUNK);
	nocancel_close(job->input_fds[1]);
}

/* A process without an exit signal stands between the application and the command. exec gives a
 * process an exit signal (SIGCHLD) again, and the application must not see that signal or a
 * child that it did not create. The process shares the application's memory and waits for the
 * command. */
static int stand_between(void *data)
{
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct job *job = data;
	pid_t child;
	int status;

	if (stack == MAP_FAILED)
		return 0;
	child = job->input && pipe2(job->input_fds, O_CLOEXEC) < 0
			? -1
			: clone(start_command, stack + STACK_BYTES,
				CLONE_VM | CLONE_VFORK | SIGCHLD, job);
	if (child > 0) {
		if (job->input)
			feed(job);
		while (nocancel_waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		job->status = WIFEXITED(status) ? WEXITSTATUS(status) : NO_STATUS;
	}
	munmap(stack, STACK_BYTES);
	return 0;
}

static int run_job(struct job *job)
{
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t all, before;
	pid_t between;

	job->status = NOT_STARTED;
	if (stack == MAP_FAILED)
		return NOT_STARTED;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	sigemptyset(&job->signals);
	between = clone(stand_between, stack + STACK_BYTES, CLONE_VM, job);
	if (between > 0)
		while (nocancel_waitpid(between, NULL, __WCLONE) < 0 && errno == EINTR)
			;
	sigprocmask(SIG_SETMASK, &before, NULL);
	munmap(stack, STACK_BYTES);
	return job->status;
}

static bool starts(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Stores the application's environment in RET, without the variables for the loader, for gpuleak
 * and for debuginfod. */
static void make_environment(char **ret, size_t size)
{
	size_t count = 0;

	for (char **variable = environ; variable && *variable && count + 1 < size; variable++)
		if (!starts(*variable, "LD_") && !starts(*variable, "GPULEAK_") &&
		    !starts(*variable, "DEBUGINFOD_URLS="))
			ret[count++] = *variable;
	ret[count] = NULL;
}

/* Adds the options among WANTED that the user has set, as flags. Returns the number of words. */
static int add_options(uint64_t wanted, char **arguments, char flags[OPTION_COUNT][FLAG_MAX])
{
	int n = 0;

	for (int id = 0; id < OPTION_COUNT; id++) {
		struct text text = { flags[id], FLAG_MAX - 1 };

		if (!(wanted & OPTION_BIT(id)) || !config_texts[id])
			continue;
		text_add(&text, "--");
		text_add(&text, option_rows[id].flag);
		*text.at = '\0';
		arguments[n++] = flags[id];
		arguments[n++] = (char *)config_texts[id];
	}
	return n;
}

/* A report that the command makes. */
struct wanted_report {
	const char *destination;
	int output_fd;       /* -1: the report that the user's options describe */
	bool at_end;         /* the process ends when the report is made */
	bool removes_ledger; /* once the report is written, perhaps after this process's end */
};

/* The flags for a report on live memory that a program reads, and the options that it depends
 * on. */
static const char *const live_flags[] = { "--format", "json", "--addresses" };
#define OPTIONS_OF_NAMES (OPTION_BIT(OPTION_RULES) | OPTION_BIT(OPTION_SUPPRESSIONS))

/* Too large for a signal handler's small stack. */
struct command_buffers {
	char *environment[ENVIRONMENT_MAX];
	char flags[OPTION_COUNT][FLAG_MAX];
	char command[PATH_MAX];
};

#define ARGUMENTS_MAX (2 * OPTION_COUNT + 9)

/* Adds the words of the command that make REPORT. Returns their number. */
static int add_words(const struct wanted_report *report, char **arguments,
		     struct command_buffers *buffers)
{
	const uint64_t options = report->output_fd < 0
					 ? OPTIONS_OF_REPORT & ~OPTION_BIT(OPTION_REPORT)
					 : OPTIONS_OF_NAMES;
	int n = 0;

	arguments[n++] = (char *)"gpuleak";
	arguments[n++] = (char *)"report";
	arguments[n++] = (char *)"--report";
	arguments[n++] = (char *)report->destination;
	n += add_options(options, arguments + n, buffers->flags);
	if (report->output_fd < 0)
		arguments[n++] = (char *)"--at-exit";
	if (report->removes_ledger)
		arguments[n++] = (char *)"--remove";
	for (size_t i = 0; report->output_fd >= 0 && i < sizeof(live_flags) / sizeof(char *); i++)
		arguments[n++] = (char *)live_flags[i];
	return n;
}

/* Returns true if the command can read the ledger's file. Otherwise it reads the ledger from its
 * input. */
static bool has_readable_file(const struct recorder *recorder)
{
	return !recorder->writer.memory_only &&
	       faccessat(AT_FDCWD, recorder->writer.path, R_OK, AT_EACCESS) == 0;
}

/* Returns the command's exit status, NOT_STARTED or NO_STATUS. */
static int run_command_with(struct recorder *recorder, const struct wanted_report *report,
			    struct command_buffers *buffers)
{
	char *arguments[ARGUMENTS_MAX];
	struct job job = { .command = buffers->command,
			   .arguments = arguments,
			   .environment = buffers->environment,
			   .output_fd = report->output_fd };
	bool as_input, paused;
	int n, status;

	if (!reporter_find_command(buffers->command, sizeof(buffers->command)))
		return NOT_STARTED;
	n = add_words(report, arguments, buffers);
	as_input = !has_readable_file(recorder);
	arguments[n++] = as_input ? (char *)"-" : recorder->writer.path;
	arguments[n] = NULL;
	make_environment(buffers->environment, ENVIRONMENT_MAX);
	job.input = as_input ? recorder : NULL;
	paused = report->at_end && driver_may_have_ended(recorder) && threads_pause();
	status = run_job(&job);
	if (paused)
		threads_resume();
	return status;
}

/* Runs the command. Returns its exit status, NOT_STARTED or NO_STATUS. Threads may call it at the
 * same time. */
static int run_command(struct recorder *recorder, const struct wanted_report *report)
{
	struct command_buffers *buffers = mmap(NULL, sizeof(*buffers), PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status;

	if (buffers == MAP_FAILED)
		return NOT_STARTED;
	status = run_command_with(recorder, report, buffers);
	munmap(buffers, sizeof(*buffers));
	return status;
}

/* Returns what the fallback report says of the command, which ended with STATUS. */
static const char *why_failed(int status)
{
	switch (status) {
	case NOT_STARTED:
		return "the gpuleak command could not be run; install it beside libgpuleak.so for "
		       "file and line";
	case NO_MEMORY:
		return "the gpuleak command had too little memory; with GPULEAK_LEDGER the "
		       "ledger stays, and `gpuleak report` can read it later";
	default:
		return "the gpuleak command failed; with GPULEAK_LEDGER the ledger stays, and "
		       "`gpuleak report` shows the reason";
	}
}

/* STATUS is how the command ended. */
static bool report_by_ourselves(struct recorder *recorder, const char *destination, int status,
				bool *ret_written)
{
	int fd = 2;
	bool failed;

	if (strcmp(destination, "stderr") != 0)
		fd = nocancel_open(destination,
				   O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
				   0666);
	failed = plain_report(recorder, fd < 0 ? 2 : fd, why_failed(status), ret_written);
	if (fd > 2)
		nocancel_close(fd);
	return failed;
}

static void remove_ledger(const struct recorder *recorder)
{
	if (!config.ledger[0] && recorder->writer.path[0])
		unlink(recorder->writer.path);
}

/* Reports by the command, or by the library if that fails. The command may write to a slow reader
 * after this process has ended. So the process that has written the report removes the ledger, if
 * AT_END is set. Returns true if the gate failed. */
static bool report_somehow(struct recorder *recorder, const char *destination, bool at_end)
{
	const struct wanted_report report = {
		.destination = destination,
		.output_fd = -1,
		.at_end = at_end,
		.removes_ledger = at_end && !config.ledger[0] && has_readable_file(recorder),
	};
	int status = run_command(recorder, &report);
	bool failed = status == GATE_FAILED, written = !report.removes_ledger;

	if (status != 0 && status != GATE_FAILED && status != 24)
		failed = report_by_ourselves(recorder, destination, status, &written);
	if (at_end && written)
		remove_ledger(recorder);
	return failed;
}

static void say_why_not_on_file(struct recorder *recorder)
{
	const struct report_state *report = recorder->report;
	const char *error = report->create_errno == ENXIO ? "not a regular file"
							  : error_text(report->create_errno);

	say("gpuleak: ", report->place[0] ? report->place : "no ledger directory", ": ",
	    error,
	    ": recorded in memory only; set GPULEAK_LEDGER to a path that can be written\n", NULL);
}

bool reporter_unrecorded(void)
{
	char pid[TEXT_NUMBER];

	if (strcmp(config.report, "none") == 0)
		return true;
	say("gpuleak: not recorded completely: ", program_invocation_short_name, " (pid ",
	    text_number((uint64_t)getpid(), pid), "): no ledger could be made in memory: ",
	    error_text(recorder_failure()), roster_advice(recorder_failure()), "\n", NULL);
	return true;
}

bool reporter_at_exit(struct recorder *recorder)
{
	const struct wanted_report verdict_only = { .destination = "none", .output_fd = -1,
						    .at_end = true };
	const char *destination = config.report;
	bool failed = false;
	KEEP_ERRNO;

	if (recorder_now()) {
		live_bytes_settle_peak(recorder);
		deferred_settle(recorder);
	}
	if (recorder->report->create_errno && !process_is_of_run())
		say_why_not_on_file(recorder);
	if (strcmp(destination, "none") != 0) {
		if (destination_at_end(recorder) == 0) {
			destination = recorder->report->destination;
		} else {
			say("gpuleak: GPULEAK_REPORT=", config.report,
			    ": not a usable path: the report follows on stderr\n", NULL);
			destination = "stderr";
		}
		failed = report_somehow(recorder, destination, true);
	} else {
		if (config.exitcode)
			failed = run_command(recorder, &verdict_only) != 0;
		remove_ledger(recorder);
	}
	return failed;
}

int reporter_live(struct recorder *recorder, int fd)
{
	const struct wanted_report live = { .destination = "/dev/stdout", .output_fd = fd };
	KEEP_ERRNO;
	int status;

	status = run_command(recorder, &live);
	return status ? -EIO : 0;
}

int reporter_now(struct recorder *recorder)
{
	const char *pattern = config.report_now[0] ? config.report_now : config.report;
	const struct timespec nap = { .tv_nsec = 10000000 };
	char place[PATH_MAX];
	int r;
	KEEP_ERRNO;

	if (strcmp(pattern, "none") == 0)
		return -ENOTSUP;
	while (!lock_try(&recorder->report->asking)) /* a report may take long */
		nocancel_nanosleep(&nap);
	r = destination_now(recorder, pattern, place);
	if (r < 0) {
		say("gpuleak: ", pattern, ": not a usable path: the report follows on stderr\n",
		    NULL);
		strcpy(place, "stderr");
	}
	apis_publish_pool();
	live_bytes_settle_peak(recorder);
	deferred_settle(recorder);
	report_somehow(recorder, place, false);
	lock_give(&recorder->report->asking);
	return 0;
}
