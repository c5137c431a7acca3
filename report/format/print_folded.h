/* SPDX-License-Identifier: MIT
 *
 * The report as folded stacks, for flame graphs.
 */
#ifndef GPULEAK_REPORT_PRINT_FOLDED_H
#define GPULEAK_REPORT_PRINT_FOLDED_H

#include <stdio.h>

struct judgement;
struct report;

/* A line a leak: frames from the root to the call, and bytes; see docs/reference/formats.md and
 * formats.h. There is no place in it for errors and notes. */
int print_folded(const struct report *report, const struct judgement *judgement, FILE *out);

#endif
