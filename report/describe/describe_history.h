/* SPDX-License-Identifier: MIT
 *
 * The retains and releases of a leaked handle in the text report.
 */
#ifndef GPULEAK_REPORT_DESCRIBE_HISTORY_H
#define GPULEAK_REPORT_DESCRIBE_HISTORY_H

#include <stdint.h>
#include <stdio.h>

struct report_history;

/* Prints the history of one of BLOCKS blocks, whose stack the caller has printed. Prints nothing if
 * HISTORY is NULL. */
void describe_history(FILE *out, const struct report_history *history, uint64_t blocks);

#endif
