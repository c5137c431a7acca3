/* SPDX-License-Identifier: MIT
 *
 * Properties of a process from /proc.
 */
#ifndef GPULEAK_TOOLS_PROCESS_H
#define GPULEAK_TOOLS_PROCESS_H

#include <stdbool.h>

/* Returns when process PID started (field 22 of its stat): with the pid it identifies the process.
 * 0 if there is no such process. A zombie still exists. */
unsigned long long process_start_ticks(int pid);

/* Returns true if the process still runs (a zombie does not). START_TICKS 0: any process with that
 * pid. */
bool process_runs(int pid, unsigned long long start_ticks);

/* Returns how many milliseconds ago process PID started; -1 if there is no such process. */
long long process_age_ms(int pid);

/* Returns true if process PID runs the same program file as this process, with WORD as its
 * first argument. */
bool process_is_our_command(int pid, const char *word);

#endif
