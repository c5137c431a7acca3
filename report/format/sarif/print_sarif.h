/* SPDX-License-Identifier: MIT
 *
 * The report as SARIF 2.1.0, for code scanning.
 */
#ifndef GPULEAK_REPORT_PRINT_SARIF_H
#define GPULEAK_REPORT_PRINT_SARIF_H

#include <stdio.h>

struct judgement;
struct report;

/* Writes one run with one invocation per process. If there are more findings than GitHub accepts,
 * the last result sums up the others. See docs/reference/formats.md, and formats.h for the
 * result. */
int print_sarif(const struct report *report, const struct judgement *judgement, FILE *out);

#endif
