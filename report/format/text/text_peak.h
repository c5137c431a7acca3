/* SPDX-License-Identifier: MIT
 *
 * Prints the peaks of a process's memories, for the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_PEAK_H
#define GPULEAK_REPORT_TEXT_PEAK_H

#include <stdbool.h>
#include <stdio.h>

struct report_process;

/* Prints a line for each memory with its largest holders. VERBOSE: a table of them instead. Returns
 * 0 or -ENOMEM. */
int text_peaks(FILE *out, const struct report_process *process, bool verbose);

#endif
