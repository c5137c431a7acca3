/* SPDX-License-Identifier: MIT
 *
 * The JSON list "devices" of a process: what is tracked and what the driver says is held.
 */
#ifndef GPULEAK_REPORT_JSON_HELD_H
#define GPULEAK_REPORT_JSON_HELD_H

#include <jansson.h>

struct report_process;

/* Whether there is a figure for any device. */
int json_held_known(const struct report_process *process);

/* The list; NULL if memory ran out. */
json_t *json_held(const struct report_process *process);

#endif
