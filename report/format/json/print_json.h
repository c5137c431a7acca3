/* SPDX-License-Identifier: MIT
 *
 * The report for programs: schema gpuleak-report/1. Owns key names and their order, which
 * are stable; more keys may be added.
 */
#ifndef GPULEAK_REPORT_PRINT_JSON_H
#define GPULEAK_REPORT_PRINT_JSON_H

#include <jansson.h>
#include <stdio.h>

struct judgement;
struct report;

/* Writes REPORT to OUT as one JSON object and a newline: one process as itself, several (or
 * none) as a list with sums. Unknown strings are null, unknown lines 0; bytes that are not
 * UTF-8 become U+FFFD; numbers above 2^63-1 become that. See formats.h. */
int print_json(const struct report *report, const struct judgement *judgement, FILE *out);

/* The same object before it is text; NULL without memory. */
json_t *json_report(const struct report *report, const struct judgement *judgement);

#endif
