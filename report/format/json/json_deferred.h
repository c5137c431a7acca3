/* SPDX-License-Identifier: MIT
 *
 * Deferred frees in the JSON report.
 */
#ifndef GPULEAK_REPORT_JSON_DEFERRED_H
#define GPULEAK_REPORT_JSON_DEFERRED_H

#include <jansson.h>

struct report_event;
struct report_deferred_frees;

/* Returns {"api": ..., "stack": [...]}, or JSON null if EVENT is unknown. */
json_t *json_event(const struct report_event *event);

json_t *json_deferred(const struct report_deferred_frees *deferred);

#endif
