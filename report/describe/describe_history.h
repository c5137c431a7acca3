/* SPDX-License-Identifier: MIT
 *
 * The references of a leaked handle in the text report.
 */
#ifndef GPULEAK_REPORT_TEXT_HISTORY_H
#define GPULEAK_REPORT_TEXT_HISTORY_H

#include <stdint.h>
#include <stdio.h>

struct report_history;

/* Prints the history of one of BLOCKS blocks, whose stack was just printed. Prints nothing for
 * NULL. */
void text_history(FILE *out, const struct report_history *history, uint64_t blocks);

#endif
