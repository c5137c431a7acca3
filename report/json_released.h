/* SPDX-License-Identifier: MIT
 *
 * What was released and not freed, in the JSON report.
 */
#ifndef GPULEAK_REPORT_JSON_RELEASED_H
#define GPULEAK_REPORT_JSON_RELEASED_H

#include <jansson.h>

struct report_released;

json_t *json_released(const struct report_released *released);

#endif
