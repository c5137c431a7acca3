/* SPDX-License-Identifier: MIT
 *
 * Patterns with stars, for names that may come from anywhere: matching costs what pattern
 * and text are long, whatever they are. Knows no files and no frames.
 */
#ifndef GPULEAK_REPORT_WILDCARD_H
#define GPULEAK_REPORT_WILDCARD_H

#include <stdbool.h>
#include <stddef.h>

#define WILDCARD_BYTES_MAX 4096 /* of a pattern, for whoever parses one */

struct wildcard {
	char *pieces;       /* the texts between the stars, each NUL-terminated */
	unsigned int count; /* of pieces, at least 1 */
	int at_start;       /* the first piece is where the text begins, */
	int at_end;         /* the last one where it ends */
};

/* Splits the LENGTH bytes of PATTERN, which contain no NUL, at their stars. 0 with *RET to be
 * finished, or -ENOMEM. */
int wildcard_compile(const char *pattern, size_t length, int at_start, int at_end,
		     struct wildcard *ret);
void wildcard_finish(struct wildcard *wildcard);

/* Returns true if TEXT contains the pieces in their order. */
bool wildcard_matches(const struct wildcard *wildcard, const char *text);

#endif
