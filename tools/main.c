/* SPDX-License-Identifier: MIT
 *
 * The gpuleak command: calls a subcommand. Has the list of subcommands.
 */
#include <signal.h>

#include "report/util/abrupt_end.h"
#include "tools/commands.h"
#include "tools/launch/program.h"
#include "tools/launch/system.h"
#include "tools/ledgers/lost.h"
#include "tools/suggest.h"

static const struct flags_command *const commands[] = {
	&command_run, &command_attach, &command_report, &command_top, &command_check,
	&command_diff, &command_doctor,
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_help(FILE *to)
{
	fputs("usage: gpuleak COMMAND [options] ...\n\n"
	      "Finds GPU memory that a program allocates and never frees, and invalid frees.\n\n",
	      to);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(to, "  gpuleak %-8s %s\n", commands[i]->name, commands[i]->summary);
	fputs("  gpuleak ./app    the same as `gpuleak run -- ./app`, if no command has this name\n"
	      "  gpuleak --version\n\n"
	      "`gpuleak COMMAND --help` explains the options of a command that matter most,\n"
	      "`gpuleak COMMAND --help-all` explains all of them. `gpuleak help` lists pages of\n"
	      "the documentation, `gpuleak help TOPIC` prints one. Begin with:\n\n"
	      "    gpuleak run -- ./app\n"
	      "    gpuleak doctor ./app        if nothing is reported\n", to);
}

/* Explains every option of every command. */
static int help_all(void)
{
	print_help(stdout);
	for (size_t i = 0; i < COMMANDS; i++) {
		putchar('\n');
		flags_help(commands[i], true);
	}
	return 0;
}

/* The commit is in the line because a report of an error needs it. */
static void print_version(void)
{
	if (strcmp(version_commit, "unknown") == 0)
		puts("gpuleak " GPULEAK_VERSION);
	else
		printf("gpuleak " GPULEAK_VERSION " (commit %s)\n", version_commit);
}

const struct flags_command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	return NULL;
}

/* Prints that NAME is no command. REASON is why it is no program either; "" if it has no slash. */
static int unknown(const char *name, const char *reason)
{
	struct suggestion suggestion = { .word = name, .length = strlen(name) };

	for (size_t i = 0; i < COMMANDS; i++)
		suggest_consider(&suggestion, commands[i]->name);
	eprintf(stderr, "gpuleak: unknown command '%s'", name);
	if (*reason)
		eprintf(stderr, ", and it cannot be run: %s", reason);
	suggest_print(&suggestion, "");
	fputs("; `gpuleak --help` lists them\n", stderr);
	return STATUS_USAGE;
}

/* Prints the help of the command ABOUT or the page ABOUT; NULL: the general help and all topics. */
static int help(const char *about)
{
	const struct flags_command *command = about ? find_command(about) : NULL;
	struct suggestion suggestion = { .word = about, .length = about ? strlen(about) : 0 };

	if (command) {
		flags_help(command, false);
	} else if (!about) {
		print_help(stdout);
		help_list_pages();
	} else if (!help_print_page(about, &suggestion)) {
		for (size_t i = 0; i < COMMANDS; i++)
			suggest_consider(&suggestion, commands[i]->name);
		eprintf(stderr, "gpuleak: help: unknown topic '%s'", about);
		suggest_print(&suggestion, "");
		fputs("; `gpuleak help` lists them\n", stderr);
		return STATUS_USAGE;
	}
	return 0;
}

struct sigaction file_limit_before, pipe_before;
static const struct sigaction ignored = { .sa_handler = SIG_IGN };

/* Runs COMMAND. ARGV[0] is its name. Returns its exit status. */
static int run_command(const struct flags_command *command, int argc, char **argv)
{
	const int count = flags_parse(command, argc, argv);

	if (count < 0)
		return count == FLAGS_HELPED ? 0 : command->usage_status;
	sigaction(SIGPIPE, &ignored, &pipe_before);
	if (count >= command->operands_min &&
	    (!command->operands_max || count <= command->operands_max))
		return command->main(argv + 1, count);
	print_error("%s: %s", command->name, command->wanted);
	return command->usage_status;
}

/* ARGV[1] is no command. If it is a program, does the same as `gpuleak run -- PROGRAM ...`. */
static int run_program(int argc, char **argv)
{
	static struct program program; /* large */
	const int r = argv[1][0] == '-' ? -ENOENT : program_find(argv[1], &program);

	if (r == 0)
		return run_command(&command_run, argc, argv);
	return unknown(argv[1], strchr(argv[1], '/') ? strerror(-r) : "");
}

int main(int argc, char **argv)
{
	const struct flags_command *command;

	abrupt_end_start();
	sigaction(SIGXFSZ, &ignored, &file_limit_before);

	lost_count_command();
	if (argc < 2) {
		print_help(stderr);
		return STATUS_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0) {
		print_version();
		return 0;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		print_help(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--help-all") == 0)
		return help_all();
	if (strcmp(argv[1], "help") == 0)
		return help(argv[2] && argv[2][0] != '-' ? argv[2] : NULL);
	command = find_command(argv[1]);
	return command ? run_command(command, argc - 1, argv + 1) : run_program(argc, argv);
}
