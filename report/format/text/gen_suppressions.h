/* SPDX-License-Identifier: MIT
 *
 * Suppressions made from a report: a line of leak:PATTERN for each leak, ready to be pasted.
 */
#ifndef GPULEAK_REPORT_GEN_SUPPRESSIONS_H
#define GPULEAK_REPORT_GEN_SUPPRESSIONS_H

#include <stdio.h>

struct report;

/* Writes a comment and a suppression for each leak of REPORT that has a stack. The pattern is the
 * name of the innermost function of the application that no other leak's stack contains; if all are
 * shared, the innermost one, and the comment counts the other leaks that it hides. If the
 * application has no named function but main, the pattern is the stack's fingerprint. 0, -ENOMEM or
 * -EIO. */
int gen_suppressions(const struct report *report, FILE *out);

#endif
