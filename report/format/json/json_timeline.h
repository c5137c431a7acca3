/* SPDX-License-Identifier: MIT
 *
 * Live bytes over time in the JSON report: key "timeline" of a process.
 */
#ifndef GPULEAK_REPORT_JSON_TIMELINE_H
#define GPULEAK_REPORT_JSON_TIMELINE_H

#include <jansson.h>

struct report_process;

json_t *json_timeline(const struct report_process *process);

#endif
