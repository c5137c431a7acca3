/* SPDX-License-Identifier: MIT
 *
 * Generates suppressions from a report: a leak:PATTERN line for each leak, and for each call site
 * that accumulates.
 */
#ifndef GPULEAK_REPORT_GEN_SUPPRESSIONS_H
#define GPULEAK_REPORT_GEN_SUPPRESSIONS_H

#include <stdio.h>

struct report;

/* Writes a comment and a suppression for each leak of REPORT that has a stack. A call site that
 * accumulates counts as a leak here. The pattern is the application's innermost function that is in
 * no other leak's stack. If there is none, it is the application's innermost function, and the
 * comment has the number of other leaks that it suppresses. If main is the application's only named
 * function, the pattern is the stack's fingerprint. Returns 0 or -EIO. */
int gen_suppressions(const struct report *report, FILE *out);

#endif
