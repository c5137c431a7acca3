/* SPDX-License-Identifier: MIT
 *
 * Prints allocations that ran out of memory, for the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_OUT_OF_MEMORY_H
#define GPULEAK_REPORT_TEXT_OUT_OF_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct report_process;

/* Prints the first line of a report on COUNT PROCESSES if one of them ended because memory ran out.
 * If there are several, about the first process. Returns 0 or -ENOMEM. */
int text_out_of_memory_first(FILE *out, struct report_process *const *processes, size_t count);

/* Prints "; out of memory 3 times, 1 of them recovered" if none of the COUNT PROCESSES ended
 * because of that. Prints nothing if there was no such request. */
void text_out_of_memory_brief(FILE *out, struct report_process *const *processes, size_t count);

/* Prints the allocations of PROCESS that ran out of memory: the final one with its stack and those
 * who held the memory. If the report has more than one line anyway, the tolerated ones in a line
 * each. VERBOSE: all of them with everything. Returns 0 or -ENOMEM. */
int text_out_of_memory(FILE *out, const struct report_process *process, bool verbose);

#endif
