/* SPDX-License-Identifier: MIT
 *
 * Which modules a report can't name functions, lines or callers of, and what helps.
 */
#ifndef GPULEAK_REPORT_TEXT_DEBUGINFO_H
#define GPULEAK_REPORT_TEXT_DEBUGINFO_H

#include <stdio.h>

struct report;

/* Writes one line if the place of a leak or of an error is in a module without debug
 * information, and one if the stack of one ends at a function without unwind tables. */
void text_debuginfo(FILE *out, const struct report *report);

#endif
