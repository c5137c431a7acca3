/* SPDX-License-Identifier: MIT
 *
 * The subcommands. Each gets its own name as ARGV[0] and returns the exit status.
 */
#ifndef GPULEAK_TOOLS_COMMANDS_H
#define GPULEAK_TOOLS_COMMANDS_H

#include <signal.h>

enum { /* exit statuses besides the gate's; the first as env(1) */
	STATUS_RUN_FAILED = 125,
	STATUS_USAGE = 2,
	STATUS_NOTHING_READ = 1,
};

/* Symbols are read from mapped files. If a rebuild truncates such a file, the command prints one
 * line on SIGBUS and exits with this status, 1 unless set. */
extern volatile int status_if_file_shrinks;
extern void (*volatile before_file_shrinks_end)(void); /* called then, unless NULL */

/* The action of SIGXFSZ at the start. The command ignores the signal, so that a file beyond the
 * limit (ulimit -f) is an ordinary error. */
extern struct sigaction file_limit_before;

int cmd_run(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_top(int argc, char **argv);

#endif
