/* SPDX-License-Identifier: MIT
 *
 * One frame of `gpuleak top`.
 */
#ifndef GPULEAK_REPORT_TEXT_LIVE_H
#define GPULEAK_REPORT_TEXT_LIVE_H

#include <stddef.h>
#include <stdio.h>

struct live;

/* The place of each site that keeps growing, by steps of the process's own or else of the
 * watcher's, BEFORE in front of each. How many. */
size_t text_live_growing(FILE *out, const struct live *live, const char *before);

/* NOW, and what changed since EARLIER (NULL: this is the first look), SECONDS ago. The SITES
 * largest sites; they must have stacks. */
void text_live(FILE *out, const struct live *now, const struct live *earlier, double seconds,
	       size_t sites);

#endif
