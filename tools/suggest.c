/* SPDX-License-Identifier: MIT
 *
 * Computes the edit distance of two words row by row ("optimal string alignment").
 */
#include "tools/suggest.h"

#include "tools/launch/system.h"

#define NAME_MAX_LENGTH 40 /* no suggestions for longer words */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t count_edits(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t rows[3][NAME_MAX_LENGTH + 1];

	for (size_t j = 0; j <= b_length; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		size_t *row = rows[i % 3];
		const size_t *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			row[j] = least(above[j - 1] + (a[i - 1] != b[j - 1]),
				       1 + least(above[j], row[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], two_above[j - 2] + 1);
		}
	}
	return rows[a_length % 3][b_length];
}

void suggest_consider(struct suggestion *suggestion, const char *name)
{
	size_t length = strlen(name), edits;

	if (length > NAME_MAX_LENGTH || suggestion->length > NAME_MAX_LENGTH)
		return;
	edits = count_edits(suggestion->word, suggestion->length, name, length);
	if (edits * 3 > suggestion->length ||
	    (suggestion->closest && edits >= suggestion->edits))
		return;
	suggestion->closest = name;
	suggestion->edits = edits;
}

void suggest_print(const struct suggestion *suggestion, const char *dashes)
{
	if (suggestion->closest)
		eprintf(stderr, " (did you mean %s%s?)", dashes, suggestion->closest);
}
