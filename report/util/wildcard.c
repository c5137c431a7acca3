/* SPDX-License-Identifier: MIT
 *
 * Searches the pieces between the stars from left to right without backtracking, which is linear
 * and finds every match.
 */
#include "report/util/wildcard.h"

#include <stdbool.h>
#include <string.h>

/* Matches each piece at its first position. This leaves the longest rest of the text for the later
 * pieces, so backtracking would find no more. Only the last piece of a pattern with at_end has a
 * fixed position. */
static bool matches(const struct wildcard *wildcard, const char *text, size_t left)
{
	const char *piece = wildcard->text, *end = piece + wildcard->length, *star, *found;
	bool at_start = wildcard->at_start;
	size_t length;

	for (;; piece = star + 1, at_start = false) {
		star = memchr(piece, '*', (size_t)(end - piece));
		length = (size_t)((star ? star : end) - piece);
		if (left < length)
			return false;
		if (!star && wildcard->at_end)
			return (!at_start || left == length) &&
			       memcmp(text + left - length, piece, length) == 0;
		if (at_start)
			found = memcmp(text, piece, length) == 0 ? text : NULL;
		else
			found = memmem(text, left, piece, length);
		if (!found)
			return false;
		if (!star)
			return true;
		left -= (size_t)(found - text) + length;
		text = found + length;
	}
}

bool wildcard_matches(const struct wildcard *wildcard, const char *text)
{
	return matches(wildcard, text, strlen(text));
}

void wildcards_match(const struct wildcard *wildcards, size_t count, const char *text,
		     unsigned int bit, unsigned char *ret)
{
	const size_t length = strlen(text);

	for (size_t i = 0; i < count; i++)
		if (wildcards[i].text && matches(&wildcards[i], text, length))
			ret[i] |= (unsigned char)bit;
}
