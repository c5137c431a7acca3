/* SPDX-License-Identifier: MIT
 *
 * A parallel job in the JSON report.
 */
#ifndef GPULEAK_REPORT_JSON_RANKS_H
#define GPULEAK_REPORT_JSON_RANKS_H

#include <jansson.h>

struct report;

/* Adds the key "ranks" to *OBJECT if REPORT is about a job with at least two ranks. */
void json_ranks(json_t **object, const struct report *report);

#endif
