/* SPDX-License-Identifier: MIT
 *
 * Prints the call sites that held memory, for the text report: when memory ran out, and at a
 * peak.
 */
#ifndef GPULEAK_REPORT_TEXT_HOLDERS_H
#define GPULEAK_REPORT_TEXT_HOLDERS_H

#include <stdbool.h>
#include <stdio.h>

struct report_holders;

/* Prints a line for each of the largest holders. If VERBOSE is set, prints all holders, and the
 * sums by cache and by library. Returns 0 or -ENOMEM. */
int text_holders(FILE *out, const struct report_holders *holders, bool verbose);

#endif
