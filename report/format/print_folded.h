/* SPDX-License-Identifier: MIT
 *
 * The report as folded stacks, for flame graphs.
 */
#ifndef GPULEAK_REPORT_PRINT_FOLDED_H
#define GPULEAK_REPORT_PRINT_FOLDED_H

#include <stdio.h>

struct judgement;
struct report;

/* Writes one line per leak: the frames from the outermost to the call, and the bytes. The format
 * cannot contain errors and notes. See docs/reference/formats.md, and formats.h for the result. */
int print_folded(const struct report *report, const struct judgement *judgement, FILE *out);

#endif
