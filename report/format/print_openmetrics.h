/* SPDX-License-Identifier: MIT
 *
 * The report as OpenMetrics text, for Prometheus and compatible collectors.
 */
#ifndef GPULEAK_REPORT_PRINT_OPENMETRICS_H
#define GPULEAK_REPORT_PRINT_OPENMETRICS_H

#include <stdio.h>

struct judgement;
struct report;

/* Writes text that is also valid in the older Prometheus text format, which node_exporter's
 * textfile collector reads. The number of time series is limited, even if there are many leaks. See
 * docs/reference/formats.md, and formats.h for the result. */
int print_openmetrics(const struct report *report, const struct judgement *judgement, FILE *out);

#endif
