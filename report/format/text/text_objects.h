/* SPDX-License-Identifier: MIT
 *
 * Objects that are not memory and were not released, in the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_OBJECTS_H
#define GPULEAK_REPORT_TEXT_OBJECTS_H

#include <stdio.h>

struct report_process;

/* Prints BEFORE, how many objects of each kind were not destroyed, and AFTER. Prints nothing if
 * there are none except contexts. */
void text_objects_brief(FILE *out, const struct report_process *process, const char *before,
			const char *after);
/* Prints each group of objects, and the totals by kind. Only verbose reports contain them. */
void text_objects(FILE *out, const struct report_process *process);

#endif
