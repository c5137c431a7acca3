/* SPDX-License-Identifier: MIT
 *
 * The report as one HTML file that needs nothing else: for who has a browser and wants to look
 * around in it.
 */
#ifndef GPULEAK_REPORT_PRINT_HTML_H
#define GPULEAK_REPORT_PRINT_HTML_H

#include <stdio.h>

struct judgement;
struct report;

/* See formats.h. */
int print_html(const struct report *report, const struct judgement *judgement, FILE *out);

#endif
