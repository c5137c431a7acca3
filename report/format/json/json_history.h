/* SPDX-License-Identifier: MIT
 *
 * The retains and releases of a handle in the JSON report.
 */
#ifndef GPULEAK_REPORT_JSON_HISTORY_H
#define GPULEAK_REPORT_JSON_HISTORY_H

#include <jansson.h>

struct report_history;

json_t *json_history(const struct report_history *history);

#endif
