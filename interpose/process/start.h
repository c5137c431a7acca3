/* SPDX-License-Identifier: MIT
 *
 * From a process without a recorder to one with a recorder.
 */
#ifndef GPULEAK_START_H
#define GPULEAK_START_H

#include <stdbool.h>

struct recorder;

/* Reads the options and the environment. The constructor calls this; a GPU call from a
 * constructor that runs before it does so too. Safe to be called again. */
void process_start(void);

/* Called after a recorder was made, by the thread that made it; may be NULL. */
extern void (*process_has_recorder)(struct recorder *recorder);

/* Returns true if `gpuleak run` learns from the roster what this process could not record. */
bool process_is_on_roster(void);

#endif
