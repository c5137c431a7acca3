/* SPDX-License-Identifier: MIT
 *
 * The report as SARIF 2.1.0, for code scanning.
 */
#ifndef GPULEAK_REPORT_PRINT_SARIF_H
#define GPULEAK_REPORT_PRINT_SARIF_H

#include <stdio.h>

struct judgement;
struct report;

/* One run, an invocation a process; see docs/reference/formats.md and formats.h. What does not
 * fit into GitHub's limits is one result that sums it up. */
int print_sarif(const struct report *report, const struct judgement *judgement, FILE *out);

#endif
