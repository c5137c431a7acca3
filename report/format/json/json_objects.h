/* SPDX-License-Identifier: MIT
 *
 * Objects that are not memory and were not released, in the JSON report.
 */
#ifndef GPULEAK_REPORT_JSON_OBJECTS_H
#define GPULEAK_REPORT_JSON_OBJECTS_H

#include <jansson.h>

struct report_process;

json_t *json_objects(const struct report_process *process);

#endif
