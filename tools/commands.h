/* SPDX-License-Identifier: MIT
 *
 * The subcommands. ARGV[0] is the name of the subcommand. Each returns its exit status.
 */
#ifndef GPULEAK_TOOLS_COMMANDS_H
#define GPULEAK_TOOLS_COMMANDS_H

#include <signal.h>

enum { /* exit statuses in addition to the gate's; STATUS_RUN_FAILED is as in env(1) */
	STATUS_RUN_FAILED = 125,
	STATUS_USAGE = 2,
	STATUS_NOTHING_READ = 1,
	STATUS_PROBLEM = 1, /* gpuleak doctor found one */
};

/* The action of SIGXFSZ when the command started. The command ignores the signal, so that exceeding
 * the file size limit (ulimit -f) is an ordinary error. */
extern struct sigaction file_limit_before;

int cmd_run(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

#endif
