/* SPDX-License-Identifier: MIT
 *
 * Patterns with stars. Patterns and texts may come from untrusted sources, so the cost of a
 * match is linear in the lengths of both. Must not depend on files or frames.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define WILDCARD_BYTES_MAX 4096 /* limit of a pattern's length, for callers that parse patterns */

/* A pattern: pieces of text between stars. */
struct wildcard {
	const char *text; /* may lack a final NUL; the caller owns it */
	size_t length;
	bool at_start; /* the first piece must be at the start of the text */
	bool at_end;   /* the last piece must be at the end of the text */
};

/* Returns true if TEXT contains the pieces of WILDCARD in this order. */
bool wildcard_matches(const struct wildcard *wildcard, const char *text);

/* Sets the bits of BIT in RET[i] for each of the COUNT wildcards that matches TEXT. A wildcard
 * whose text is NULL matches nothing. */
void wildcards_match(const struct wildcard *wildcards, size_t count, const char *text,
		     unsigned int bit, unsigned char *ret);
