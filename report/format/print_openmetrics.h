/* SPDX-License-Identifier: MIT
 *
 * The report as OpenMetrics text, for Prometheus and what scrapes like it.
 */
#ifndef GPULEAK_REPORT_PRINT_OPENMETRICS_H
#define GPULEAK_REPORT_PRINT_OPENMETRICS_H

#include <stdio.h>

struct judgement;
struct report;

/* Also valid in the older text format that node_exporter's textfile collector reads. However
 * many leaks there are, the number of series is bounded; see docs/reference/formats.md. */
int print_openmetrics(const struct report *report, const struct judgement *judgement, FILE *out);

#endif
