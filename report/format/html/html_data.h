/* SPDX-License-Identifier: MIT
 *
 * The JSON report for the HTML page: each frame and stack once, and some words of the text
 * report.
 */
#ifndef GPULEAK_REPORT_HTML_DATA_H
#define GPULEAK_REPORT_HTML_DATA_H

#include <jansson.h>
#include <stdio.h>

struct judgement;
struct report;

/* NULL without memory. What differs from the JSON report: "stack" is an index into "stacks",
 * whose items are indices into "frames"; "name", "how" and "coverage_text" of a process, "site"
 * of a leak (index of the frame to look at, -1: no frame) and "told" of an error are more keys;
 * "kinds" has words for each kind; "incomplete" says that "no leaks" is not proven. */
json_t *html_data(const struct report *report, const struct judgement *judgement);

/* Writes DATA such that nothing in it ends a <script> element. 0 or -EIO. */
int html_data_write(const json_t *data, FILE *out);

#endif
