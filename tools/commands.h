/* SPDX-License-Identifier: MIT
 *
 * The subcommands, and what they share with main().
 */
#pragma once

#include <signal.h>

#include "tools/flags.h"

enum { /* exit statuses in addition to the gate's; STATUS_RUN_FAILED is as in env(1) */
	STATUS_RUN_FAILED = 125,
	STATUS_USAGE = 2,
	STATUS_NOTHING_READ = 1,
	STATUS_PROBLEM = 1, /* gpuleak doctor found one */
};

/* The actions of SIGXFSZ and SIGPIPE when the command started. The command ignores the signals, so
 * that exceeding the file size limit (ulimit -f) is an ordinary error, and a reader that closes the
 * pipe does not change the exit status. */
extern struct sigaction file_limit_before, pipe_before;

/* The commit that this command was built from: 12 hexadecimal digits, with -dirty if tracked files
 * were changed; "unknown" if the build had neither a git checkout nor the tarball's file COMMIT. */
extern const char version_commit[];

/* Returns the command NAME, or NULL. */
const struct flags_command *find_command(const char *name);

struct suggestion;

/* Lists the pages of the documentation. */
void help_list_pages(void);

/* Prints the pages NAME ("gate" or "gate.md"), and returns true. Returns false if there is no such
 * page, and then has considered the names of all pages for SUGGESTION. */
bool help_print_page(const char *name, struct suggestion *suggestion);

extern const struct flags_command command_run, command_report, command_check, command_diff,
	command_top, command_doctor, command_attach;
