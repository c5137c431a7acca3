/* SPDX-License-Identifier: MIT
 *
 * The list "devices" of a process in the JSON report: tracked memory, and the memory that the
 * driver reports.
 */
#ifndef GPULEAK_REPORT_JSON_DRIVER_MEMORY_H
#define GPULEAK_REPORT_JSON_DRIVER_MEMORY_H

#include <jansson.h>
#include <stdbool.h>

struct report_process;

/* Returns true if at least one device has samples. */
bool json_driver_memory_known(const struct report_process *process);

/* Returns the list, or NULL if memory ran out. */
json_t *json_driver_memory(const struct report_process *process);

#endif
