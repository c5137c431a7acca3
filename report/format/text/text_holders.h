/* SPDX-License-Identifier: MIT
 *
 * Prints those who held memory, for the text report: when it ran out, and at a peak.
 */
#ifndef GPULEAK_REPORT_TEXT_HOLDERS_H
#define GPULEAK_REPORT_TEXT_HOLDERS_H

#include <stdbool.h>
#include <stdio.h>

struct report_holders;

/* Prints a line for each of the largest holders, VERBOSE: for all, and the sums by cache and by
 * library. Returns 0 or -ENOMEM. */
int text_holders(FILE *out, const struct report_holders *holders, bool verbose);

#endif
