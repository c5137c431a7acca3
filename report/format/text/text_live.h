/* SPDX-License-Identifier: MIT
 *
 * One frame of `gpuleak top`.
 */
#ifndef GPULEAK_REPORT_TEXT_LIVE_H
#define GPULEAK_REPORT_TEXT_LIVE_H

#include <stddef.h>
#include <stdio.h>

struct live;

/* Prints BEFORE and the place of each call site that keeps growing, by the process's steps or else
 * top's own. Returns the number of sites. */
size_t text_live_growing(FILE *out, const struct live *live, const char *before);

/* Prints NOW and the changes since EARLIER (NULL: the first frame), SECONDS ago, with the SITES
 * largest call sites, which must have stacks. */
void text_live(FILE *out, const struct live *now, const struct live *earlier, double seconds,
	       size_t sites);

#endif
