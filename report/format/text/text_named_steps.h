/* SPDX-License-Identifier: MIT
 *
 * The table of named steps in the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_NAMED_STEPS_H
#define GPULEAK_REPORT_TEXT_NAMED_STEPS_H

#include <stdio.h>

struct report_process;

/* Prints the table. Prints nothing if no step has a name. */
void text_named_steps(FILE *out, const struct report_process *process);

#endif
