/* SPDX-License-Identifier: MIT
 *
 * Prints what keeps the blocks of a call site.
 */
#ifndef GPULEAK_REPORT_DESCRIBE_KEEPERS_H
#define GPULEAK_REPORT_DESCRIBE_KEEPERS_H

#include <stdio.h>

struct report_keepers;

/* Prints "  Kept after 4.00 s by:", and a line for each keeper. Prints nothing if KEEPERS is NULL.
 * The text is valid UTF-8 without control characters. */
void describe_keepers(FILE *out, const struct report_keepers *keepers);

#endif
