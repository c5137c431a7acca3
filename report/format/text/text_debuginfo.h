/* SPDX-License-Identifier: MIT
 *
 * Prints which modules are the reason that function names, lines or callers are missing in the
 * report, with advice.
 */
#ifndef GPULEAK_REPORT_TEXT_DEBUGINFO_H
#define GPULEAK_REPORT_TEXT_DEBUGINFO_H

#include <stdio.h>

struct report;

/* Prints one line about modules without debug information, if the place of a leak or an error is in
 * one. Prints another line about modules without unwind tables, if callers are missing in such a
 * stack for that reason. */
void text_debuginfo(FILE *out, const struct report *report);

#endif
