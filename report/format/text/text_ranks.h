/* SPDX-License-Identifier: MIT
 *
 * A parallel job in the text report: the ranks that differ, and the leaks that ranks share.
 */
#ifndef GPULEAK_REPORT_TEXT_RANKS_H
#define GPULEAK_REPORT_TEXT_RANKS_H

#include <stdio.h>

struct ranks;

/* Prints how single ranks differ from the others, for the start of the report's first line: "only
 * rank 3 leaks 1.0 GiB at make (app.c:12); ". Prints nothing if no rank differs. */
void text_ranks_first(FILE *out, const struct ranks *ranks);

/* Prints the other sentences about ranks, one per line. */
void text_ranks_more(FILE *out, const struct ranks *ranks);

/* Prints the leaks, and the call sites that accumulate, that several ranks have: each of them
 * once. */
void text_ranks_shared(FILE *out, const struct ranks *ranks);

#endif
