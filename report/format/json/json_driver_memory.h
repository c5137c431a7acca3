/* SPDX-License-Identifier: MIT
 *
 * The JSON list "devices" of a process: tracked memory and the memory that the driver reports.
 */
#ifndef GPULEAK_REPORT_JSON_DRIVER_MEMORY_H
#define GPULEAK_REPORT_JSON_DRIVER_MEMORY_H

#include <jansson.h>
#include <stdbool.h>

struct report_process;

/* Returns true if any device has a figure. */
bool json_driver_memory_known(const struct report_process *process);

/* The list; NULL if memory ran out. */
json_t *json_driver_memory(const struct report_process *process);

#endif
