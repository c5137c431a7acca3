/* SPDX-License-Identifier: MIT
 *
 * What the driver itself holds, in the words of the text report: a line a device.
 */
#ifndef GPULEAK_REPORT_TEXT_DRIVER_MEMORY_H
#define GPULEAK_REPORT_TEXT_DRIVER_MEMORY_H

#include <stdio.h>

struct report_process;

/* Prints nothing of a device that nobody could be asked about, unless VERBOSE: then it says
 * why there is no figure. */
void text_driver_memory(FILE *out, const struct report_process *process, int verbose);

#endif
