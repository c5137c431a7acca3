/* SPDX-License-Identifier: MIT
 *
 * `gpuleak doctor --start`: runs the user's program by `gpuleak run`, and reads from its ledgers
 * what was recorded. The only check that starts the program.
 */
#include <jansson.h>
#include <signal.h>
#include <sys/wait.h>

#include "tools/doctor/doctor_checks.h"
#include "tools/doctor/probe.h"
#include "tools/launch/system.h"
#include "tools/ledgers/rundir.h"

#define SELF "/proc/self/exe"
#define REPORT_SECONDS 300
#define GAPS_MAX 10
#define REASONS "/reasons" /* the file in the run's directory with what was not recorded, and why */

/* Runs the program, with this command's input and output. Returns the status of `gpuleak run`, or
 * -errno. */
static int run_program(const char *directory, const char *flag, char **argv)
{
	static const char *const first[] = { "gpuleak", "run", "--report", "none", "--ledger" };
	enum { FIRST = sizeof(first) / sizeof(first[0]) };
	char pattern[RUNDIR_PATTERN_MAX];
	FREE_AT_END char *reasons = text_format("%s" REASONS, directory);
	FREE_AT_END const char **words = NULL;
	size_t count = 0;
	int status = 0;
	pid_t pid;

	rundir_pattern(directory, pattern);
	for (size_t i = 0; i < FIRST; i++)
		*LIST_ADD(words, count) = first[i];
	*LIST_ADD(words, count) = pattern;
	*LIST_ADD(words, count) = "--reasons";
	*LIST_ADD(words, count) = reasons;
	if (flag)
		*LIST_ADD(words, count) = flag;
	*LIST_ADD(words, count) = "--";
	for (; *argv; argv++)
		*LIST_ADD(words, count) = *argv;
	*LIST_ADD(words, count) = NULL;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		execv(SELF, (char **)words);
		_exit(127);
	}
	signal(SIGINT, SIG_IGN); /* Ctrl-C is for the program */
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	signal(SIGINT, SIG_DFL);
	return pid < 0 ? -errno : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "?";
}

/* Adds what gpuleak could not see of PROCESS. */
static void add_gaps(struct doctor *doctor, const json_t *process)
{
	const json_t *gaps = json_object_get(json_object_get(process, "coverage"), "out_of_reach");

	for (size_t i = 0; i < json_array_size(gaps) && i < GAPS_MAX; i++) {
		const json_t *gap = json_array_get(gaps, i);

		doctor_warn(doctor, "calls of %s are not seen: %s", text_of(gap, "module"),
			    text_of(gap, "reason"));
		doctor_advise(doctor, "`gpuleak help coverage` has the reasons");
	}
}

static void add_recorded(struct doctor *doctor, const json_t *report)
{
	const json_t *processes = json_object_get(report, "processes");
	size_t count = processes ? json_array_size(processes) : 1;

	doctor_ok(doctor, "%zu process%s made GPU calls, and %s recorded", count,
		  count == 1 ? "" : "es", count == 1 ? "was" : "were");
	for (size_t i = 0; i < count; i++)
		add_gaps(doctor, processes ? json_array_get(processes, i) : report);
}

/* Adds why `gpuleak run` could not record a process. Returns the number of reasons. */
static size_t add_reasons(struct doctor *doctor, const char *directory)
{
	FREE_AT_END char *path = text_format("%s" REASONS, directory), *line = NULL;
	AT_END(close_file) FILE *from = fopen(path, "re");
	size_t room = 0, count = 0;
	ssize_t length;

	while (from && (length = getline(&line, &room, from)) > 0) {
		char *advice = strstr(line, "; ");

		line[length - 1] = '\0';
		if (advice)
			*advice = '\0';
		doctor_problem(doctor, "%s", line);
		doctor_advise(doctor, "%s",
			      advice ? advice + 2 : "`gpuleak help coverage` explains it");
		count++;
	}
	unlink(path);
	return count;
}

/* Makes a report from the ledgers in DIRECTORY, and adds what it has. */
static void read_ledgers(struct doctor *doctor, const char *directory)
{
	char *argv[] = { (char *)SELF, (char *)"report", (char *)"--format", (char *)"json",
			 (char *)"--report", (char *)"/dev/stdout", (char *)directory, NULL };
	AT_END(probe_finish) struct probe probe = { 0 };
	json_t *report;
	size_t reasons;

	probe_command(argv, NULL, REPORT_SECONDS, &probe);
	report = json_loads(probe.text, JSON_DISABLE_EOF_CHECK, NULL);
	reasons = add_reasons(doctor, directory);
	if (json_object_get(report, "schema")) {
		add_recorded(doctor, report);
	} else if (reasons == 0) {
		doctor_warn(doctor, "gpuleak saw no GPU call of %s", doctor->program);
		doctor_advise(doctor, "check that it uses the GPU with these arguments, and that "
			      "it starts no other program in a way that is listed above");
	}
	json_decref(report);
}

void doctor_check_start(struct doctor *doctor, const char *flag, char **argv)
{
	char directory[PATH_MAX], error[PATH_MAX * 2];
	int r;

	doctor->area = "start";
	if (rundir_create(directory, sizeof(directory), error, sizeof(error)) < 0)
		return; /* doctor_check_limits() adds it */
	r = run_program(directory, flag, argv);
	if (r < 0)
		doctor_warn(doctor, "the program was not started: %s", strerror(-r));
	else if (r)
		doctor_warn(doctor, "%s ended with status %d", argv[0], r);
	if (r >= 0)
		read_ledgers(doctor, directory);
	rundir_remove(directory);
}
