/* SPDX-License-Identifier: MIT
 *
 * A comparison of two reports as text.
 */
#ifndef GPULEAK_REPORT_TEXT_DIFF_H
#define GPULEAK_REPORT_TEXT_DIFF_H

#include <stdio.h>

struct diff;

/* Writes DIFF to OUT. Returns 0 or -EIO. */
int diff_print_text(const struct diff *diff, FILE *out);

#endif
