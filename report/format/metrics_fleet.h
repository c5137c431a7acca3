/* SPDX-License-Identifier: MIT
 *
 * Metrics for many processes.
 */
#pragma once

#include <stdio.h>

struct report;

void print_fleet_metrics(FILE *out, const struct report *report);
