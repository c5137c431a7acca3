/* SPDX-License-Identifier: MIT
 *
 * The report for programs: schema gpuleak-report/1. Defines the keys and their order, which are
 * stable. Later versions may add keys.
 */
#ifndef GPULEAK_REPORT_PRINT_JSON_H
#define GPULEAK_REPORT_PRINT_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct judgement;
struct report;

/* Writes REPORT to OUT as one JSON object and a newline. One process is the object itself; several
 * processes or none are a list with sums. Unknown strings are null, unknown lines 0. Bytes that are
 * not UTF-8 become U+FFFD, and numbers above 2^63-1 become 2^63-1. For the result see formats.h. */
int print_json(const struct report *report, const struct judgement *judgement, FILE *out);

/* Returns the same object without writing it. If HAS_WORDS is set, it also has words of the text
 * report, for the HTML page: see html_data.h. */
json_t *json_report(const struct report *report, const struct judgement *judgement,
		    bool has_words);

#endif
