/* SPDX-License-Identifier: MIT
 *
 * A comparison of two reports as JSON.
 */
#ifndef GPULEAK_REPORT_JSON_DIFF_H
#define GPULEAK_REPORT_JSON_DIFF_H

#include <stdio.h>

struct diff;

/* Writes DIFF to OUT. Returns 0 or -EIO. */
int diff_print_json(const struct diff *diff, FILE *out);

#endif
