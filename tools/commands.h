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

/* Symbols are read from mapped files. One that is cut short meanwhile (a rebuild) is a
 * SIGBUS: then one line says so and the command ends with this, 1 unless set. */
extern volatile int status_if_file_shrinks;
extern void (*volatile before_file_shrinks_end)(void); /* called then, unless NULL */

/* What SIGXFSZ did when the command began. The command ignores it: a file that would be larger
 * than the limit (ulimit -f) is an error like any other. */
extern struct sigaction file_limit_before;

int cmd_run(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_top(int argc, char **argv);

#endif
