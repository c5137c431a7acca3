/* SPDX-License-Identifier: MIT
 *
 * A parallel job in the JSON report.
 */
#ifndef GPULEAK_REPORT_JSON_RANKS_H
#define GPULEAK_REPORT_JSON_RANKS_H

#include <jansson.h>

struct report;

/* The key "ranks" of *OBJECT, if REPORT is on a job of at least two. */
void json_ranks(json_t **object, const struct report *report);

#endif
