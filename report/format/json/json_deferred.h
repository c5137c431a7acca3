/* SPDX-License-Identifier: MIT
 *
 * What was released and not freed, in the JSON report.
 */
#ifndef GPULEAK_REPORT_JSON_RELEASED_H
#define GPULEAK_REPORT_JSON_RELEASED_H

#include <jansson.h>

struct report_event;
struct report_released;

/* {"api": ..., "stack": [...]}, or null where nothing is known of EVENT. */
json_t *json_event(const struct report_event *event);

json_t *json_released(const struct report_released *released);

#endif
