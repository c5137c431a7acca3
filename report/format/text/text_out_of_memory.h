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
 * If several did, the line is about the first. Returns 0 or -ENOMEM. */
int text_out_of_memory_first(FILE *out, struct report_process *const *processes, size_t count);

/* Prints "; out of memory 3 times, 1 of them recovered". Prints nothing if no request of the COUNT
 * PROCESSES was refused, or if one of the processes ended because of that. */
void text_out_of_memory_brief(FILE *out, struct report_process *const *processes, size_t count);

/* Prints the allocations of PROCESS that ran out of memory: the final one with its stack and the
 * call sites that held the memory. The tolerated ones get one line each, but only if the report has
 * more than one line in any case. VERBOSE: prints all of them like the final one. Returns 0 or
 * -ENOMEM. */
int text_out_of_memory(FILE *out, const struct report_process *process, bool verbose);

#endif
