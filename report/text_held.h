/* SPDX-License-Identifier: MIT
 *
 * What the driver itself holds, in the words of the text report: a line a device.
 */
#ifndef GPULEAK_REPORT_TEXT_HELD_H
#define GPULEAK_REPORT_TEXT_HELD_H

#include <stdio.h>

struct report_process;

/* For a process that has something to fix. Prints nothing of a device that nobody could be
 * asked about. */
void text_held(FILE *out, const struct report_process *process);

/* What that left out, for those who ask for all: the figures of a clean process, or why there
 * are none. */
void text_held_all(FILE *out, const struct report_process *process);

#endif
