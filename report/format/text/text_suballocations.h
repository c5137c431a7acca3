/* SPDX-License-Identifier: MIT
 *
 * Suballocations in the text report: those that accumulate, and the other live ones inside the
 * blocks that a framework caches.
 */
#ifndef GPULEAK_REPORT_TEXT_SUBALLOCATIONS_H
#define GPULEAK_REPORT_TEXT_SUBALLOCATIONS_H

#include <stdbool.h>
#include <stdio.h>

struct ranks;
struct report_process;

/* Returns true if a call site accumulates and is not suppressed. */
bool text_accumulates(const struct report_process *process);

/* Prints a paragraph with the stack for each call site that accumulates, except those that the
 * section about RANKS prints. RANKS may be NULL. */
void text_accumulating(FILE *out, const struct report_process *process, const struct ranks *ranks);

/* Prints the live suballocations by pool, with the stacks of those that do not accumulate. */
void text_suballocations(FILE *out, const struct report_process *process);

#endif
