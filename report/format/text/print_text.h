/* SPDX-License-Identifier: MIT
 *
 * The report for people. Defines words and layout; does not decide the gate.
 */
#ifndef GPULEAK_REPORT_PRINT_TEXT_H
#define GPULEAK_REPORT_PRINT_TEXT_H

#include <stdio.h>

struct judgement;
struct report;

/* Writes REPORT to OUT. The first line is a summary. Escapes names from a ledger or a file. Does
 * not print JUDGEMENT; the caller does. For the result see formats.h. */
int print_text(const struct report *report, const struct judgement *judgement, FILE *out);

/* Writes only the first line that print_text() writes. */
void print_text_headline(const struct report *report, FILE *out);

#endif
