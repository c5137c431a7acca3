/* SPDX-License-Identifier: MIT
 *
 * Lines about modules for which the report lacks function names, lines or callers, with advice.
 */
#ifndef GPULEAK_REPORT_TEXT_DEBUGINFO_H
#define GPULEAK_REPORT_TEXT_DEBUGINFO_H

#include <stdio.h>

struct report;

/* Prints one line if the place of a leak or an error is in a module without debug information.
 * Prints another line if such a stack ends at a function without an unwind table. */
void text_debuginfo(FILE *out, const struct report *report);

#endif
