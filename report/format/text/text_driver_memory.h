/* SPDX-License-Identifier: MIT
 *
 * The driver's own memory in the text report: one or two lines per device.
 */
#ifndef GPULEAK_REPORT_TEXT_DRIVER_MEMORY_H
#define GPULEAK_REPORT_TEXT_DRIVER_MEMORY_H

#include <stdbool.h>
#include <stdio.h>

struct report_process;

/* Prints the lines of each device with samples. If VERBOSE is set, also prints what the driver took
 * on other devices and, if no device has samples, the reason. */
void text_driver_memory(FILE *out, const struct report_process *process, bool verbose);

#endif
