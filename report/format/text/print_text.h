/* SPDX-License-Identifier: MIT
 *
 * The report for people. Owns words and layout; decides nothing.
 */
#ifndef GPULEAK_REPORT_PRINT_TEXT_H
#define GPULEAK_REPORT_PRINT_TEXT_H

#include <stdio.h>

struct judgement;
struct report;

/* Writes REPORT to OUT. The first line is the verdict. Names from a ledger or a file are escaped.
 * The caller prints the judgement. See formats.h. */
int print_text(const struct report *report, const struct judgement *judgement, FILE *out);

/* Writes the first line of that report alone. 0 or -ENOMEM. */
int print_text_headline(const struct report *report, FILE *out);

#endif
