/* SPDX-License-Identifier: MIT
 *
 * Patterns with stars, for names that may come from anywhere: matching costs what pattern
 * and text are long, whatever they are. Knows no files and no frames.
 */
#ifndef GPULEAK_REPORT_WILDCARD_H
#define GPULEAK_REPORT_WILDCARD_H

#include <stddef.h>

#define WILDCARD_BYTES_MAX 4096 /* of a pattern, for whoever parses one */

struct wildcard {
	char *pieces;       /* what stands between the stars, each ended by NUL */
	unsigned int count; /* of pieces, at least 1 */
	int at_start;       /* the first piece is where the text begins, */
	int at_end;         /* the last one where it ends */
};

/* Cuts the LENGTH bytes of PATTERN at their stars; no NUL may be among them. 0 with *RET to
 * be finished, or -ENOMEM. */
int wildcard_compile(const char *pattern, size_t length, int at_start, int at_end,
		     struct wildcard *ret);
void wildcard_finish(struct wildcard *wildcard);

/* Whether TEXT has the pieces in their order. */
int wildcard_matches(const struct wildcard *wildcard, const char *text);

#endif
