/* SPDX-License-Identifier: MIT
 *
 * What /proc says about a process, as far as the command needs it.
 */
#ifndef GPULEAK_TOOLS_PROCESS_H
#define GPULEAK_TOOLS_PROCESS_H

#include <stdbool.h>

/* When process PID started (field 22 of its stat): with the pid it names the process for
 * good. 0 if there is no such process. A zombie is still there. */
unsigned long long process_start_ticks(int pid);

/* Whether the process of that name still runs (a zombie does not). START_TICKS 0: any
 * process of that pid. */
int process_runs(int pid, unsigned long long start_ticks);

/* How many milliseconds ago process PID started; -1 if there is no such process. */
long long process_age_ms(int pid);

/* Returns true if process PID runs the same program file as this process, with WORD as its
 * first argument. */
bool process_is_our_command(int pid, const char *word);

#endif
