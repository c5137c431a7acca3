/* SPDX-License-Identifier: MIT
 *
 * gpuleak doctor: checks what keeps gpuleak from recording a program, and what a report will lack.
 * Starts the program only with --start. Creates no GPU context.
 */
#include <signal.h>

#include "tools/commands.h"
#include "tools/doctor/doctor_checks.h"
#include "tools/flags.h"
#include "tools/launch/system.h"
#include "tools/ledgers/ledgers.h"
#include "tools/suggest.h"

#define PREFIX "GPULEAK_"
#define OPTIONS_WITHOUT_GPU (OPTION_BIT(OPTION_FAKE_GPU) | OPTION_BIT(OPTION_FAKE_KERNELS))

static bool start; /* --start */

/* Adds a finding if the variable GPULEAK_<NAME>=VALUE is not one that gpuleak reads. */
static void check_variable(struct doctor *doctor, const char *name, size_t length,
			   const char *value)
{
	static const char *const others[] = { "LIBRARY", "ROSTER", "BYPASS" };
	struct suggestion suggestion = { .word = name, .length = length };
	int id = option_find(name, length);
	struct options scratch;

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strlen(others[i]) == length && memcmp(others[i], name, length) == 0)
			return;
	for (int i = 0; i < OPTION_COUNT; i++)
		suggest_consider(&suggestion, option_rows[i].name);
	options_defaults(&scratch);
	if (id < 0) {
		doctor_warn(doctor, "there is no option " PREFIX "%.*s", (int)length, name);
		if (suggestion.closest)
			doctor_advise(doctor, "did you mean " PREFIX "%s?", suggestion.closest);
	} else if (*value && option_set(&scratch, (enum option_id)id, value) < 0) {
		doctor_warn(doctor, PREFIX "%s has the bad value '%s'", option_rows[id].name,
			    value);
		doctor_advise(doctor, "expected is %s", option_expects((enum option_id)id));
	} else {
		doctor_note(doctor, PREFIX "%s is set to '%s'", option_rows[id].name, value);
	}
}

static void check_variables(struct doctor *doctor)
{
	doctor->area = "shell";
	for (char **variable = environ; variable && *variable; variable++) {
		const char *equals = strchr(*variable, '=');

		if (equals && strncmp(*variable, PREFIX, strlen(PREFIX)) == 0)
			check_variable(doctor, *variable + strlen(PREFIX),
				       (size_t)(equals - *variable) - strlen(PREFIX), equals + 1);
	}
}

/* Prepares TARGET for --fake-gpu as `gpuleak run` does: the loader finds the stand-ins first. */
static void find_stand_ins(struct doctor *doctor, struct doctor_target *target)
{
	static struct fake_gpu fake; /* large */
	char error[PATH_MAX * 2];

	if (!opt_values.fake_gpu && !opt_values.fake_kernels)
		return;
	target->fake = &fake;
	fake.skip_kernels = opt_values.fake_kernels;
	if (fake_gpu_find(&fake, error, sizeof(error)) == 0) {
		fake_gpu_set_search_path(&fake);
		return;
	}
	fake.directories[0] = '\0';
	doctor->area = "library";
	doctor_problem(doctor, "--fake-gpu: %s", error);
	doctor_advise(doctor, "install gpuleak again");
}

static void check_all(struct doctor *doctor, char **argv)
{
	static struct doctor_target target; /* large */

	doctor_check_library(doctor, &target);
	find_stand_ins(doctor, &target);
	target.argv = argv;
	if (argv)
		doctor_check_program(doctor, &target);
	if (target.fake)
		doctor_check_stand_in(doctor, &target);
	else
		doctor_check_cuda(doctor, &target);
	doctor_check_opencl(doctor, &target);
	doctor_check_python(doctor, &target);
	doctor_check_recordable(doctor, &target);
	doctor_check_stacks(doctor, &target);
	doctor_check_limits(doctor);
	check_variables(doctor);
	if (argv && start)
		doctor_check_start(doctor, opt_values.fake_kernels ? "--fake-kernels"
					   : opt_values.fake_gpu   ? "--fake-gpu"
								   : NULL, argv);
}

/* Prints the findings. Returns the exit status. */
static int print(struct doctor *doctor)
{
	if (opt_values.format != OPTION_FORMAT_JSON)
		doctor_print_text(doctor, flags_wants_colors(NULL), stdout);
	else
		doctor_print_json(doctor, stdout);
	doctor_finish(doctor);
	return doctor->of_level[DOCTOR_PROBLEM] ? STATUS_PROBLEM : 0;
}

static int examine(char **operands, int count)
{
	struct doctor doctor = { 0 };

	if (start && count == 0) {
		print_error("doctor: --start needs a program: gpuleak doctor --start ./app");
		return STATUS_USAGE;
	}
	if (count == 1 && ledgers_pid(operands[0]) > 0 && access(operands[0], F_OK) < 0) {
		doctor_check_process(&doctor, ledgers_pid(operands[0]));
		return print(&doctor);
	}
	flags_environment(OPTIONS_WITHOUT_GPU);
	signal(SIGCHLD, SIG_DFL); /* if it is ignored, no child can be waited for */
	check_all(&doctor, count ? operands : NULL);
	return print(&doctor);
}

static const struct flags_extra extras[] = {
	{ "--start", OPTION_GROUP_RECORD, OPTION_RANK_FIRST,
	  "also run PROGRAM with its ARGUMENTs, and check what was recorded", &start },
	{ NULL },
};

const struct flags_command command_doctor = {
	.name = "doctor",
	.summary = "check what keeps gpuleak from recording a program",
	.synopsis = "[options] [--] [PROGRAM [ARGUMENT...] | PID]",
	.prose = "Checks this machine, and PROGRAM if it is named: does the preload reach it,\n"
		 "which driver and which Python are there, what will a report lack, is there\n"
		 "room for ledgers? Prints one line per finding: what was found, where, and\n"
		 "what to do. PROGRAM is not started, and no GPU context is created. With a\n"
		 "PID, checks if `gpuleak attach` can record that process.\n",
	.options = OPTION_BIT(OPTION_FORMAT) | OPTION_BIT(OPTION_COLOR) | OPTIONS_WITHOUT_GPU,
	.extras = extras,
	.formats = (const char *const[]){ "text", "json", NULL },
	.report_to = "standard output",
	.stop_at_operand = true,
	.tail = "exit status: 0 no problem was found, 1 a problem was found, 2 wrong usage.\n"
		"Warnings and notes do not change it.\n",
	.usage_status = STATUS_USAGE,
	.main = examine,
};
