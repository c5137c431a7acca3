/* SPDX-License-Identifier: MIT
 *
 * Decides and sets what bypass.def lists, and reports it with the caches that held memory all the
 * same. Must not change a variable that the user set, and must not trust the notes of the Python
 * module: the program can write them, too.
 */
#include "tools/launch/bypass.h"

#include "report/symbols/rules.h"
#include "report/symbols/symbolize.h"
#include "report/util/path.h"
#include "tools/launch/library.h"
#include "tools/launch/run_variables.h"
#include "tools/launch/system.h"

#define NOTE_MAX 200
#define SENTENCE_MAX 600
#define PROBLEMS_MAX 16 /* different sentences */

enum memory { DEVICE, PINNED, NO_SIGN };

static const struct bypass_row {
	struct report_bypass shown;
	const char *cache;
	enum memory memory;
	const char *import;
} table[BYPASS_COUNT] = {
#define BYPASS(framework_, setting_, cache, memory, import, changes_)                          \
	{ { .framework = framework_, .setting = setting_, .changes = changes_ }, cache, memory, \
	  import },
#include "tools/launch/bypass.def"
#undef BYPASS
};

/* Writes the variable of SETTING, "VARIABLE=VALUE", to RET. Returns the value, or NULL if SETTING
 * is a call in Python. */
static const char *split(const char *setting, char ret[64])
{
	const char *equals = strchr(setting, '=');

	if (!equals)
		return NULL;
	snprintf(ret, 64, "%.*s", (int)(equals - setting), setting);
	return equals + 1;
}

static void start_variable(struct report_bypass *row)
{
	char variable[64];
	const char *value = split(row->setting, variable), *found = getenv(variable);

	row->switched_off = !found || !*found || strcmp(found, value) == 0;
	if (row->switched_off)
		return;
	row->found = found;
	print_error("--bypass-pools did not change %s, which is %s in the environment", variable,
		    found);
}

void bypass_start(struct bypass *bypass, struct symbolizer *symbolizer)
{
	char error[PATH_MAX * 2];
	char variable[64];

	memset(bypass, 0, sizeof(*bypass));
	if (library_find_module(bypass->module, sizeof(bypass->module), error, sizeof(error)) < 0) {
		bypass->module[0] = '\0';
		print_error("CuPy's cache cannot be switched off: %s", error);
	}
	for (int i = 0; i < BYPASS_COUNT; i++) {
		bypass->rows[i] = table[i].shown;
		if (split(table[i].shown.setting, variable))
			start_variable(&bypass->rows[i]);
		else
			bypass->rows[i].switched_off = bypass->module[0];
		if (table[i].memory == NO_SIGN && bypass->rows[i].switched_off)
			rules_drop(symbolizer_rules(symbolizer), table[i].cache);
	}
}

void bypass_prepare(const struct bypass *bypass, const char *directory)
{
	char variable[64];

	for (int i = 0; i < BYPASS_COUNT; i++) {
		const char *value = split(bypass->rows[i].setting, variable);

		if (value && bypass->rows[i].switched_off)
			setenv(variable, value, 1);
	}
	setenv("GPULEAK_GUARD_WAIT", "0", 0);
	if (!bypass->module[0])
		return;
	run_variables_put_once("PYTHONPATH", bypass->module, ":");
	setenv("GPULEAK_BYPASS", directory, 1);
}

/* A cache that was in use, by reason. */
struct problem {
	const char *framework;
	char reason[SENTENCE_MAX / 2];
	int pid; /* the first process */
	size_t others;
	bool chosen; /* the program chose to use the cache */
};

struct summary {
	struct problem problems[PROBLEMS_MAX];
	size_t problem_count;
	bool imported[BYPASS_COUNT]; /* by a process of the report */
	bool any_imported;
};

/* Reads the note DIRECTORY/PID.IMPORT. Returns false if there is none. */
static bool read_note(const char *directory, int pid, const char *import, char ret[NOTE_MAX])
{
	FREE_AT_END char *path = text_format("%s/%d.%s", directory, pid, import);
	AT_END(close_descriptor) int fd =
		*directory ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	ssize_t length;

	if (fd < 0)
		return false;
	length = read(fd, ret, NOTE_MAX - 1);
	ret[length > 0 ? length : 0] = '\0';
	return true;
}

bool bypass_is_note(const char *name)
{
	const size_t digits = strspn(name, "0123456789");

	for (int id = 0; id < BYPASS_COUNT; id++)
		if (digits && name[digits] == '.' &&
		    strcmp(name + digits + 1, table[id].import) == 0)
			return true;
	return false;
}

/* Returns the flag of Python, one of WANTED, in the command line of PROCESS, or 0. */
static char python_flag(const struct report_process *process, const char *wanted)
{
	for (size_t i = 1; i < process->command_count; i++) {
		const char *letter = process->command[i];

		if (*letter++ != '-' || *letter == '-')
			return 0;
		for (; *letter; letter++) {
			if (strchr(wanted, *letter))
				return *letter;
			if (strchr("cm", *letter))
				return 0;
			if (strchr("QWX", *letter)) { /* the value follows, or is the next word */
				i += !letter[1];
				break;
			}
		}
	}
	return 0;
}

/* Writes to RET why the cache that SETTING switches off was in use in PROCESS. NOTE is NULL if
 * there is none. Returns true if the program chose to use the cache. */
static bool reason_of(const struct report_process *process, const char *note,
		      const char *setting, char *ret, size_t size)
{
	const char *name = process->command_count ? path_last(process->command[0]) : "";
	const char flag = strncmp(name, "python", 6) == 0 ? python_flag(process, "IES") : 0;

	if (strchr(setting, '='))
		snprintf(ret, size,
			 "%s had no effect: the program changed the variable, or this "
			 "version of the framework does not know it",
			 setting);
	else if (note && strcmp(note, "off") != 0)
		snprintf(ret, size, "%s", note);
	else if (note)
		return snprintf(ret, size, "the program chose an allocator of its own") > 0;
	else if (flag)
		snprintf(ret, size, "python -%c does not load gpuleak's sitecustomize.py", flag);
	else
		snprintf(ret, size,
			 "Python did not load gpuleak's sitecustomize.py (PYTHONPATH was "
			 "changed, or the program contains a Python that ignores it)");
	return false;
}

static void add_problem(struct summary *summary, const char *framework, int pid,
			const char *reason, bool chosen)
{
	struct problem *problem = summary->problems;
	struct problem *const end = problem + summary->problem_count;

	while (problem < end && (strcmp(problem->framework, framework) != 0 ||
				 strcmp(problem->reason, reason) != 0))
		problem++;
	if (problem < end) {
		problem->others += problem->pid != pid;
	} else if (summary->problem_count < PROBLEMS_MAX) {
		summary->problem_count++;
		*problem = (struct problem){
			.framework = framework,
			.pid = pid,
			.chosen = chosen,
		};
		snprintf(problem->reason, sizeof(problem->reason), "%s", reason);
	}
}

/* Returns true if the cache of row ID held memory at the end. */
static bool in_use(int id, const struct report_process *process)
{
	EACH_ITEM(process->cached, process->cached_count, held) {
		if (strcmp(held->cache, table[id].cache) == 0 &&
		    (strcmp(held->site->kind, "pinned") == 0) == (table[id].memory == PINNED))
			return true;
	}
	return false;
}

/* Checks the cache of row ID in PROCESS. */
static void check_row(struct bypass *bypass, int id, const struct report_process *process,
		      const char *directory, struct summary *summary)
{
	struct report_bypass *row = &bypass->rows[id];
	char text[NOTE_MAX], reason[SENTENCE_MAX / 2];
	const char *note =
		read_note(directory, process->pid, table[id].import, text) ? text : NULL;

	summary->imported[id] |= note != NULL;
	summary->any_imported |= note != NULL;
	if (!in_use(id, process) && (!note || strcmp(note, "off") == 0))
		return;
	*LIST_ADD(row->pids, row->pid_count) = process->pid;
	if (row->switched_off) { /* else bypass_start() printed why */
		const bool chosen =
			reason_of(process, note, row->setting, reason, sizeof(reason));

		add_problem(summary, row->framework, process->pid, reason, chosen);
	}
}

/* Adds a remark that names the frameworks whose caches are off, for example "PyTorch, CuPy and
 * JAX". */
static void add_first_note(const struct bypass *bypass, struct report *report)
{
	const char *names[BYPASS_COUNT];
	char text[SENTENCE_MAX];
	size_t count = 0, used;

	for (int id = 0; id < BYPASS_COUNT; id++) {
		const struct report_bypass *row = &bypass->rows[id];

		if (row->switched_off && *table[id].cache &&
		    (!count || strcmp(names[count - 1], row->framework) != 0))
			names[count++] = row->framework;
	}
	if (!count) {
		report_add_remark(report, "--bypass-pools switched off no cache");
		return;
	}
	used = (size_t)snprintf(text, sizeof(text), "--bypass-pools switched off the caches of ");
	for (size_t i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
					 !i ? "" : i + 1 < count ? ", " : " and ", names[i]);
	snprintf(text + used, sizeof(text) - used,
		 ": times, addresses and peaks differ from a run without it");
	report_add_remark(report, text);
}

static void describe_problem(const struct problem *problem, char ret[SENTENCE_MAX])
{
	char more[64] = "";

	if (problem->others)
		snprintf(more, sizeof(more), " and %zu more process%s", problem->others,
			 problem->others == 1 ? "" : "es");
	snprintf(ret, SENTENCE_MAX, "%s's cache could not be switched off in pid %d%s: %s",
		 problem->framework, problem->pid, more, problem->reason);
}

/* Returns true if a process of the report may use row ID. Without any note the program is probably
 * not Python, and may be a native program of any framework. */
static bool concerns(const struct summary *summary, int id, const char *setting)
{
	return summary->any_imported ? summary->imported[id] : strchr(setting, '=') != NULL;
}

void bypass_report(struct bypass *bypass, struct report *report, const char *directory,
		   bypass_failed_fn *failed, void *data)
{
	struct summary summary = { 0 };
	char text[SENTENCE_MAX];

	for (size_t i = 0; i < report->count * BYPASS_COUNT; i++)
		check_row(bypass, (int)(i % BYPASS_COUNT), report->processes[i / BYPASS_COUNT],
			  directory, &summary);
	report->bypassed = bypass->rows;
	report->bypassed_count = BYPASS_COUNT;
	add_first_note(bypass, report);
	for (int id = 0; id < BYPASS_COUNT; id++) {
		const struct report_bypass *row = &bypass->rows[id];

		if (!row->switched_off || !concerns(&summary, id, row->setting))
			continue;
		snprintf(text, sizeof(text), "%s (%s): %s", row->framework, row->setting,
			 row->changes);
		report_add_remark(report, text);
	}
	for (size_t i = 0; i < summary.problem_count; i++) {
		describe_problem(&summary.problems[i], text);
		if (summary.problems[i].chosen)
			report_add_remark(report, text);
		else
			failed(data, text);
	}
}

void bypass_finish(struct bypass *bypass)
{
	for (int i = 0; i < BYPASS_COUNT; i++)
		free(bypass->rows[i].pids);
	memset(bypass, 0, sizeof(*bypass));
}
