/* SPDX-License-Identifier: MIT
 *
 * Patterns with stars. Patterns and texts may come from untrusted sources, so the cost of a
 * match is linear in the lengths of both. Must not depend on files or frames.
 */
#ifndef GPULEAK_REPORT_WILDCARD_H
#define GPULEAK_REPORT_WILDCARD_H

#include <stdbool.h>
#include <stddef.h>

#define WILDCARD_BYTES_MAX 4096 /* limit of a pattern's length, for callers that parse patterns */

struct wildcard {
	char *pieces;       /* the texts between the stars, each with a final NUL */
	unsigned int count; /* number of pieces, at least 1 */
	int at_start;       /* the first piece must be at the start of the text */
	int at_end;         /* the last piece must be at the end of the text */
};

/* Splits the LENGTH bytes of PATTERN, which have no NUL, at their stars. Returns 0 or -ENOMEM. The
 * caller releases *RET with wildcard_finish(). */
int wildcard_compile(const char *pattern, size_t length, int at_start, int at_end,
		     struct wildcard *ret);
void wildcard_finish(struct wildcard *wildcard);

/* Returns true if TEXT contains the pieces in this order. */
bool wildcard_matches(const struct wildcard *wildcard, const char *text);

#endif
