/* SPDX-License-Identifier: MIT
 *
 * One frame of `gpuleak top`.
 */
#ifndef GPULEAK_REPORT_TEXT_LIVE_H
#define GPULEAK_REPORT_TEXT_LIVE_H

#include <stddef.h>
#include <stdio.h>

struct live;

/* NOW, and what changed since EARLIER (NULL: this is the first look), SECONDS ago. The SITES
 * largest sites; they must have stacks. */
void text_live(FILE *out, const struct live *now, const struct live *earlier, double seconds,
	       size_t sites);

#endif
