/* SPDX-License-Identifier: MIT
 *
 * Which modules a report can't name functions and lines of, and what helps.
 */
#ifndef GPULEAK_REPORT_TEXT_DEBUGINFO_H
#define GPULEAK_REPORT_TEXT_DEBUGINFO_H

#include <stdio.h>

struct report;

/* Writes one line if the place of a leak or of an error is in a module without debug
 * information; nothing otherwise. */
void text_debuginfo(FILE *out, const struct report *report);

#endif
