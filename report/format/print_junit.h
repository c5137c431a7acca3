/* SPDX-License-Identifier: MIT
 *
 * The report as JUnit's XML, for CI systems that show test results.
 */
#ifndef GPULEAK_REPORT_PRINT_JUNIT_H
#define GPULEAK_REPORT_PRINT_JUNIT_H

#include <stdio.h>

struct judgement;
struct report;

/* A suite a process, a case a leak and a wrong free, and three cases that are always there;
 * see docs/reference/formats.md and formats.h. */
int print_junit(const struct report *report, const struct judgement *judgement, FILE *out);

#endif
