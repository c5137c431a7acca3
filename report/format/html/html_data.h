/* SPDX-License-Identifier: MIT
 *
 * The data of the HTML page: the JSON report, but with each frame and each stack only once, and
 * with some words of the text report.
 */
#ifndef GPULEAK_REPORT_HTML_DATA_H
#define GPULEAK_REPORT_HTML_DATA_H

#include <jansson.h>
#include <stdio.h>

struct judgement;
struct report;

/* Returns the data. It differs from the JSON report in this: "stack" is an index into "stacks",
 * whose items are indices into "frames". A process also has "name", "how", "coverage_text" and
 * "outside_text". A leak and an entry of "suballocations" also have "site", the index of the frame
 * to show (-1: none), and the latter "unit" and "trend_text". An error also has "told". "kinds" has
 * the words of kinds.def by name, and "figures" the titles of each subject's figures. "incomplete"
 * means that "no leaks" is not proven. */
json_t *html_data(const struct report *report, const struct judgement *judgement);

/* Writes DATA so that no part of it ends a <script> element. Returns 0 or -EIO. */
int html_data_write(const json_t *data, FILE *out);

#endif
