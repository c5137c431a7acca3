/* SPDX-License-Identifier: MIT
 *
 * Coverage in the JSON report.
 */
#ifndef GPULEAK_REPORT_JSON_COVERAGE_H
#define GPULEAK_REPORT_JSON_COVERAGE_H

#include <jansson.h>

struct report_coverage;

/* Returns the object for the key "coverage" of a process, or NULL if memory ran out. */
json_t *json_coverage(const struct report_coverage *coverage);

#endif
