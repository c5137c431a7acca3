/* SPDX-License-Identifier: MIT
 *
 * Prints the peaks of a process's memories, for the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_PEAK_H
#define GPULEAK_REPORT_TEXT_PEAK_H

#include <stdbool.h>
#include <stdio.h>

struct report_process;

/* Prints one line for each memory, with its largest holders. VERBOSE: prints a table of all holders
 * for each memory instead. Returns 0 or -ENOMEM. */
int text_peaks(FILE *out, const struct report_process *process, bool verbose);

#endif
