/* SPDX-License-Identifier: MIT
 *
 * The report as JUnit's XML, for CI systems that show test results.
 */
#ifndef GPULEAK_REPORT_PRINT_JUNIT_H
#define GPULEAK_REPORT_PRINT_JUNIT_H

#include <stdio.h>

struct judgement;
struct report;

/* Writes one test suite per process, with one test case per leak and per invalid free, and three
 * cases that always exist. See docs/reference/formats.md, and formats.h for the result. */
int print_junit(const struct report *report, const struct judgement *judgement, FILE *out);

#endif
