/* SPDX-License-Identifier: MIT
 *
 * Suppressions made from a report: a line of leak:PATTERN for each leak, ready to be pasted.
 */
#ifndef GPULEAK_REPORT_GEN_SUPPRESSIONS_H
#define GPULEAK_REPORT_GEN_SUPPRESSIONS_H

#include <stdio.h>

struct report;

/* Writes a comment and a suppression for each leak of REPORT that has a stack. The pattern is
 * the whole name of the application's innermost function that none of the other leaks comes
 * by; where there is none, of its innermost one, and the comment says what else that hides.
 * Where no function of the application but main has a name, it is the stack's fingerprint.
 * 0, -ENOMEM or -EIO. */
int gen_suppressions(const struct report *report, FILE *out);

#endif
