/* SPDX-License-Identifier: MIT
 *
 * Splits a pattern at its stars once. Matching searches the pieces from left to right without
 * backtracking, which is linear and finds every match.
 */
#include "report/util/wildcard.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int wildcard_compile(const char *pattern, size_t length, int at_start, int at_end,
		     struct wildcard *ret)
{
	char *pieces = strndup(pattern, length);

	if (!pieces)
		return -ENOMEM;
	*ret = (struct wildcard){ pieces, 1, at_start, at_end };
	for (char *at = pieces; *at; at++) {
		if (*at != '*')
			continue;
		*at = '\0';
		ret->count++;
	}
	return 0;
}

void wildcard_finish(struct wildcard *wildcard)
{
	free(wildcard->pieces);
	*wildcard = (struct wildcard){ 0 };
}

/* Matches each piece at its first position. This leaves the longest rest of the text for the later
 * pieces, so backtracking would find no more. Only the last piece of a pattern with at_end has a
 * fixed position. */
bool wildcard_matches(const struct wildcard *wildcard, const char *text)
{
	const char *piece = wildcard->pieces;
	size_t length, left;

	for (unsigned int i = 0; i < wildcard->count; i++, piece += length + 1) {
		length = strlen(piece);
		if (i == 0 && wildcard->at_start) {
			if (strncmp(text, piece, length) != 0)
				return false;
			text += length;
			if (wildcard->count == 1 && wildcard->at_end)
				return *text == '\0';
			continue;
		}
		if (i == wildcard->count - 1 && wildcard->at_end) {
			left = strlen(text);
			return left >= length && strcmp(text + left - length, piece) == 0;
		}
		text = strstr(text, piece);
		if (!text)
			return false;
		text += length;
	}
	return true;
}
