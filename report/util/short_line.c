/* SPDX-License-Identifier: MIT
 *
 * A path is what has a slash and begins after "(". It has no space unless it is absolute.
 */
#include "report/util/short_line.h"

#include <stdbool.h>
#include <string.h>

#define DOTS "..."

/* Removes folders from the LENGTH bytes at PATH: at least EXCESS bytes if there are as many. */
static void shorten_path(char *path, size_t length, size_t excess)
{
	size_t from = excess + strlen(DOTS);
	char *rest = from < length ? memchr(path + from, '/', length - from) : NULL;

	rest = rest ? rest : memrchr(path, '/', length);
	if (!rest || rest <= path + strlen(DOTS) || (*path != '/' && memchr(path, ' ', length)))
		return;
	memcpy(path, DOTS, strlen(DOTS));
	memmove(path + strlen(DOTS), rest, strlen(rest) + 1);
}

/* Returns the end of the last part of the sentence that ends in the first COLUMNS bytes of LINE, or
 * of the last word, or 0. */
static size_t last_part(const char *line, size_t columns)
{
	size_t end = columns, word = columns;

	while (end > 1 && !(line[end - 1] == ' ' && strchr(",;", line[end - 2])))
		end--;
	while (word > 1 && line[word - 1] != ' ')
		word--;
	return end > columns / 3 ? end : word > columns / 3 ? word : 0;
}

char *short_line(char *line, size_t columns)
{
	size_t end = columns - strlen(DOTS), part;

	for (char *at = line; strlen(line) > columns && (at = strchr(at, '(')) != NULL;) {
		at++;
		shorten_path(at, strcspn(at, "(),"), strlen(line) - columns);
	}
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
