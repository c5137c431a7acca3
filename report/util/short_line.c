/* SPDX-License-Identifier: MIT
 *
 * A path is what has a slash and begins after "(". It has no space unless it is absolute.
 */
#include "report/util/short_line.h"

#include <string.h>

#include "report/util/text_buffer.h"

#define DOTS "..."

/* Removes folders from the LENGTH bytes at PATH: at least EXCESS bytes if there are as many.
 * Returns the number of bytes that DOTS replace, or 0. */
static size_t shorten_path(char *path, size_t length, size_t excess)
{
	size_t from = excess + strlen(DOTS);
	char *rest = from < length ? memchr(path + from, '/', length - from) : NULL;

	rest = rest ? rest : memrchr(path, '/', length);
	if (!rest || rest <= path + strlen(DOTS) || (*path != '/' && memchr(path, ' ', length)))
		return 0;
	memcpy(path, DOTS, strlen(DOTS));
	memmove(path + strlen(DOTS), rest, strlen(rest) + 1);
	return (size_t)(rest - path);
}

void short_paths(char *line, size_t columns)
{
	FREE_AT_END char *whole = strdup(line);
	const char *last = NULL; /* in WHOLE: the path that was shortened last, by `cut` bytes */
	size_t cut = 0, removed;

	for (char *at = line; whole && (at = strchr(at, '(')) != NULL;) {
		size_t length = strcspn(++at, "(),");
		const char *same = whole + strlen(whole) - strlen(at);

		if (last && strncmp(same, last, cut) == 0 && same[cut] == '/')
			shorten_path(at, length, cut - strlen(DOTS));
		else if (strlen(line) > columns &&
			 (removed = shorten_path(at, length, strlen(line) - columns))) {
			last = same;
			cut = removed;
		}
	}
}

/* Returns the end of the last part of the sentence that ends in the first COLUMNS bytes of LINE, or
 * of the last word, preferably after a place, or 0. Nothing in parentheses is an end. */
static size_t last_part(const char *line, size_t columns)
{
	size_t end = 0, word = 0, depth = 0;

	for (size_t i = 1; i < columns; i++) {
		depth += line[i] == '(';
		depth -= line[i] == ')' && depth;
		if (line[i] != ' ' || depth)
			continue;
		if (line[i - 1] == ')' || !word || line[word - 2] != ')')
			word = i + 1;
		end = strchr(",;", line[i - 1]) ? i + 1 : end;
	}
	return end > columns / 3 ? end : word > columns / 3 ? word : 0;
}

char *short_line(char *line, size_t columns)
{
	size_t end = columns - strlen(DOTS), part;

	short_paths(line, columns);
	if (strlen(line) <= columns)
		return NULL;
	part = last_part(line, columns + 1);
	if (part) {
		line[part - 1] = '\0';
		return line + part;
	}
	while (end && ((unsigned char)line[end] & 0xc0) == 0x80) /* inside a character */
		end--;
	strcpy(line + end, DOTS);
	return NULL;
}
