/* SPDX-License-Identifier: MIT
 *
 * A parallel job in the text report: the ranks that differ, and the leaks that ranks share.
 */
#ifndef GPULEAK_REPORT_TEXT_RANKS_H
#define GPULEAK_REPORT_TEXT_RANKS_H

#include <stdio.h>

struct ranks;

/* "only rank 3 leaks 1.0 GiB at make (app.c:12); ": what a first line begins with, or nothing. */
void text_ranks_first(FILE *out, const struct ranks *ranks);

/* The rest that did not fit there, one line each. */
void text_ranks_more(FILE *out, const struct ranks *ranks);

/* Each leak that several ranks have, once. */
void text_ranks_shared(FILE *out, const struct ranks *ranks);

#endif
