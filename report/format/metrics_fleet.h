/* SPDX-License-Identifier: MIT
 *
 * Metrics for many processes.
 */
#ifndef GPULEAK_REPORT_METRICS_FLEET_H
#define GPULEAK_REPORT_METRICS_FLEET_H

#include <stdio.h>

struct report;

void print_fleet_metrics(FILE *out, const struct report *report);

#endif
