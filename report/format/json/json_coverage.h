/* SPDX-License-Identifier: MIT
 *
 * Coverage as JSON.
 */
#ifndef GPULEAK_REPORT_JSON_COVERAGE_H
#define GPULEAK_REPORT_JSON_COVERAGE_H

#include <jansson.h>

struct report_coverage;

/* The object of a process's "coverage", or NULL without memory. */
json_t *json_coverage(const struct report_coverage *coverage);

#endif
