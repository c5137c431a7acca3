/* SPDX-License-Identifier: MIT
 *
 * The gpuleak command: calls a subcommand. Has the list of subcommands.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/abrupt_end.h"
#include "tools/commands.h"
#include "report/util/escape.h"
#include "tools/ledgers/lost.h"
#include "tools/suggest.h"
#include "tools/version.h"

static const struct subcommand {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *what;
} subcommands[] = {
	{ "run", cmd_run, "run a program and report the GPU memory that it leaks" },
	{ "report", cmd_report, "report on a ledger, a directory of ledgers, or a process" },
	{ "top", cmd_top, "show the live memory of a running process" },
	{ "check", cmd_check, "print the verdict on ledgers, and exit with it" },
	{ "diff", cmd_diff, "compare the leaks of two reports" },
	{ "doctor", cmd_doctor, "check what keeps gpuleak from recording a program" },
};
#define SUBCOMMANDS (sizeof(subcommands) / sizeof(subcommands[0]))

static void print_help(FILE *to)
{
	fputs("usage: gpuleak COMMAND [options] ...\n\n"
	      "Finds GPU memory that a program allocates and never frees, and invalid frees.\n\n",
	      to);
	for (size_t i = 0; i < SUBCOMMANDS; i++)
		fprintf(to, "  gpuleak %-8s %s\n", subcommands[i].name, subcommands[i].what);
	fputs("  gpuleak --version\n\n"
	      "`gpuleak COMMAND --help` explains the options of a command that matter most,\n"
	      "`gpuleak COMMAND --help-all` explains all of them. Begin with:\n\n"
	      "    gpuleak run -- ./app\n"
	      "    gpuleak doctor ./app        if nothing is reported\n", to);
}

static int help_on(const struct subcommand *subcommand, const char *flag)
{
	char *argv[] = { (char *)subcommand->name, (char *)flag, NULL };

	return subcommand->main(2, argv);
}

/* Explains every option of every command. */
static int help_all(void)
{
	print_help(stdout);
	for (size_t i = 0; i < SUBCOMMANDS; i++) {
		putchar('\n');
		help_on(&subcommands[i], "--help-all");
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

static const struct subcommand *find_subcommand(const char *name)
{
	for (size_t i = 0; i < SUBCOMMANDS; i++)
		if (strcmp(subcommands[i].name, name) == 0)
			return &subcommands[i];
	return NULL;
}

static int unknown(const char *name)
{
	struct suggestion suggestion = { .word = name, .length = strlen(name) };

	for (size_t i = 0; i < SUBCOMMANDS; i++)
		suggest_consider(&suggestion, subcommands[i].name);
	eprintf(stderr, "gpuleak: unknown command '%s'", name);
	suggest_print(&suggestion, "");
	fputs("; `gpuleak --help` lists them\n", stderr);
	return STATUS_USAGE;
}

static int help(const char *about)
{
	const struct subcommand *subcommand;

	if (!about) {
		print_help(stdout);
		return 0;
	}
	subcommand = find_subcommand(about);
	return subcommand ? help_on(subcommand, "--help") : unknown(about);
}

struct sigaction file_limit_before;

int main(int argc, char **argv)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	const struct subcommand *subcommand;

	abrupt_end_start();
	sigaction(SIGXFSZ, &ignore, &file_limit_before);

	lost_count_command();
	if (argc < 2) {
		print_help(stderr);
		return STATUS_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0) {
		print_version();
		return 0;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return help(NULL);
	if (strcmp(argv[1], "--help-all") == 0)
		return help_all();
	if (strcmp(argv[1], "help") == 0)
		return help(argv[2]);
	subcommand = find_subcommand(argv[1]);
	return subcommand ? subcommand->main(argc - 1, argv + 1) : unknown(argv[1]);
}
