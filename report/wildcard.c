/* SPDX-License-Identifier: MIT
 *
 * A pattern is cut at its stars once; matching then looks for the pieces from left to right
 * and never goes back, which is linear and finds a match where there is one.
 */
#include "wildcard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"

/* Cuts the pieces out of the pattern. */
static int cut(struct wildcard *wildcard)
{
	char *at = wildcard->pieces;
	size_t length;

	strcpy(at, wildcard->pattern);
	if (*at == '^') {
		wildcard->anchored_start = 1;
		memmove(at, at + 1, strlen(at));
	}
	length = strlen(at);
	if (length > 0 && at[length - 1] == '$') {
		wildcard->anchored_end = 1;
		at[--length] = '\0';
	}
	if (length == 0)
		return -EINVAL;
	wildcard->count = 1;
	for (; *at; at++) {
		if (*at != '*')
			continue;
		*at = '\0';
		wildcard->count++;
	}
	return 0;
}

int wildcard_compile(struct wildcard *ret, const char *pattern, size_t length)
{
	struct wildcard made = { 0 };
	int r = -ENOMEM;

	if (length > WILDCARD_MAX)
		return -E2BIG;
	made.pattern = strndup(pattern, length);
	made.pieces = malloc(length + 1);
	if (made.pattern && made.pieces)
		r = cut(&made);
	if (r < 0)
		wildcard_finish(&made);
	else
		*ret = made;
	return r;
}

void wildcard_finish(struct wildcard *wildcard)
{
	free(wildcard->pattern);
	free(wildcard->pieces);
	*wildcard = (struct wildcard){ 0 };
}

/* Each piece is taken as early as possible: what is left for the next ones is then as
 * long as it can be, so going back could not find more. Only the last piece of a pattern
 * that ends in $ has its place given. */
int wildcard_match(const struct wildcard *wildcard, const char *text)
{
	const char *piece = wildcard->pieces;
	size_t length, left;

	if (!text || !*text)
		return 0;
	for (unsigned int i = 0; i < wildcard->count; i++, piece += length + 1) {
		length = strlen(piece);
		if (i == 0 && wildcard->anchored_start) {
			if (strncmp(text, piece, length) != 0)
				return 0;
			text += length;
			if (wildcard->count == 1 && wildcard->anchored_end)
				return *text == '\0';
			continue;
		}
		if (i == wildcard->count - 1 && wildcard->anchored_end) {
			left = strlen(text);
			return left >= length && strcmp(text + left - length, piece) == 0;
		}
		text = strstr(text, piece);
		if (!text)
			return 0;
		text += length;
	}
	return 1;
}

int wildcard_match_frames(const struct wildcard *wildcard, const struct report_frame *frames,
			  size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (wildcard_match(wildcard, frames[i].function) ||
		    wildcard_match(wildcard, frames[i].file) ||
		    wildcard_match(wildcard, frames[i].module))
			return 1;
	return 0;
}
