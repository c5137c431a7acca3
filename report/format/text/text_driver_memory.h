/* SPDX-License-Identifier: MIT
 *
 * The driver's own memory in the text report: one line per device.
 */
#ifndef GPULEAK_REPORT_TEXT_DRIVER_MEMORY_H
#define GPULEAK_REPORT_TEXT_DRIVER_MEMORY_H

#include <stdbool.h>
#include <stdio.h>

struct report_process;

/* Prints the line of each device with samples. With VERBOSE set, prints for other devices why there
 * are none. */
void text_driver_memory(FILE *out, const struct report_process *process, bool verbose);

#endif
