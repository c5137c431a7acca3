/* SPDX-License-Identifier: MIT
 *
 * Starts recording: options at load time, the recorder at the first GPU call.
 */
#ifndef GPULEAK_START_H
#define GPULEAK_START_H

#include <stdbool.h>

struct recorder;

/* Reads the options and the environment. Called by the constructor, or by a GPU call in another
 * library's constructor that runs earlier. Further calls do nothing. */
void process_start(void);

/* Called after a recorder was made, on the thread that made it; may be NULL. */
extern void (*process_has_recorder)(struct recorder *recorder);

/* At the end of a process without a recorder: if its GPU calls bypassed gpuleak, records that
 * for `gpuleak run`. Calls the loader. */
void process_note_bypass(void);

/* Adds CHANGE to the number of programs that the programs of `gpuleak run` have started. Safe in a
 * vfork child: the number is in the roster. */
void process_count_started(int change);

/* Returns true if `gpuleak run` started this process: then that command, or a line that was printed
 * when recording began, reports what could not be recorded (ledger/roster.h). */
bool process_is_of_run(void);

#endif
