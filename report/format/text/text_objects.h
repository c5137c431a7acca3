/* SPDX-License-Identifier: MIT
 *
 * Objects that are no memory and were left, in the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_OBJECTS_H
#define GPULEAK_REPORT_TEXT_OBJECTS_H

#include <stdio.h>

struct report_process;

/* One line each; for a verbose report only. */
void text_objects(FILE *out, const struct report_process *process);

#endif
