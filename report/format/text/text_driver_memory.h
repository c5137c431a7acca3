/* SPDX-License-Identifier: MIT
 *
 * The driver's own memory in the text report: one line per device.
 */
#ifndef GPULEAK_REPORT_TEXT_DRIVER_MEMORY_H
#define GPULEAK_REPORT_TEXT_DRIVER_MEMORY_H

#include <stdio.h>

struct report_process;

/* Prints nothing about a device without figures, unless VERBOSE: then prints the reason. */
void text_driver_memory(FILE *out, const struct report_process *process, int verbose);

#endif
