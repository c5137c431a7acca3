/* SPDX-License-Identifier: MIT
 *
 * The report as one self-contained, interactive HTML file.
 */
#ifndef GPULEAK_REPORT_PRINT_HTML_H
#define GPULEAK_REPORT_PRINT_HTML_H

#include <stdio.h>

struct judgement;
struct report;

/* See formats.h. */
int print_html(const struct report *report, const struct judgement *judgement, FILE *out);

#endif
