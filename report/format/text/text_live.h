/* SPDX-License-Identifier: MIT
 *
 * The screen of `gpuleak top`.
 */
#ifndef GPULEAK_REPORT_TEXT_LIVE_H
#define GPULEAK_REPORT_TEXT_LIVE_H

#include <stddef.h>
#include <stdio.h>

struct live;

/* Prints NOW with the SITES largest call sites, which must have stacks. Also prints the changes
 * since EARLIER, which was read SECONDS ago. For the first screen EARLIER is NULL, and no changes
 * are printed. */
void text_live(FILE *out, const struct live *now, const struct live *earlier, double seconds,
	       size_t sites);

#endif
