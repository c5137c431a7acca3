/* SPDX-License-Identifier: MIT
 *
 * Objects that are not memory and were not released, in the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_OBJECTS_H
#define GPULEAK_REPORT_TEXT_OBJECTS_H

#include <stdio.h>

struct report_process;

/* Prints one line per group of objects. Only verbose reports contain them. */
void text_objects(FILE *out, const struct report_process *process);

#endif
