/* SPDX-License-Identifier: MIT
 *
 * Reads small text files and walks their lines. Owns limits and the form of errors.
 */
#include "report/util/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int lines_fail(const struct lines *lines, int r, const char *format, ...)
{
	va_list args;
	int n;

	n = lines->line ? snprintf(lines->error, lines->error_size, "%s:%u: ", lines->name,
				   lines->line)
			: snprintf(lines->error, lines->error_size, "%s: ", lines->name);
	if (n < 0 || (size_t)n >= lines->error_size)
		return r;
	va_start(args, format);
	vsnprintf(lines->error + n, lines->error_size - (size_t)n, format, args);
	va_end(args);
	return r;
}

const char *lines_quote(const char *text, size_t length, char ret[LINES_QUOTE])
{
	size_t n = length < LINES_QUOTE - 1 ? length : LINES_QUOTE - 1;

	for (size_t i = 0; i < n; i++)
		ret[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '.';
	ret[n] = '\0';
	return ret;
}

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

void lines_trim(const char **text, size_t *length)
{
	while (*length > 0 && is_blank((*text)[0])) {
		(*text)++;
		(*length)--;
	}
	while (*length > 0 && is_blank((*text)[*length - 1]))
		(*length)--;
}

int lines_each(struct lines *lines, const char *text, size_t length,
	       int (*each)(void *data, const struct lines *lines, const char *text,
			   size_t length),
	       void *data)
{
	const char *end = text + length;
	int r = 0;

	if (length > lines->bytes_max)
		return lines_fail(lines, -EFBIG, "larger than %zu MiB: this is not a %s file",
				  lines->bytes_max >> 20, lines->what);
	if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3; /* some editors begin UTF-8 files with a byte order mark */
	while (text < end && r == 0) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t left = (size_t)((newline ? newline : end) - text);
		const char *line = text;

		lines->line++;
		lines_trim(&line, &left);
		if (left && line[0] != '#')
			r = memchr(line, '\0', left)
				    ? lines_fail(lines, -EINVAL,
						 "a NUL byte: this is not a %s file", lines->what)
				    : each(data, lines, line, left);
		text = newline ? newline + 1 : end;
	}
	return r;
}

/* Reads until the end or one byte more than is allowed; not by size, so that a pipe works. */
static int read_all(int fd, size_t bytes_max, char **ret_text, size_t *ret_length)
{
	size_t length = 0, room = 4096;
	char *text = malloc(room);

	while (text && length <= bytes_max) {
		ssize_t n = read(fd, text + length, room - length);
		char *more;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int r = -errno;

			free(text);
			return r;
		}
		if (n == 0)
			break;
		length += (size_t)n;
		if (length < room)
			continue;
		room *= 2;
		more = realloc(text, room);
		if (!more)
			free(text);
		text = more;
	}
	if (!text)
		return -ENOMEM;
	*ret_text = text;
	*ret_length = length;
	return 0;
}

int lines_read(const struct lines *lines, char **ret_text, size_t *ret_length)
{
	int fd = open(lines->name, O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : read_all(fd, lines->bytes_max, ret_text, ret_length);

	if (fd >= 0)
		close(fd);
	return r < 0 ? lines_fail(lines, r, "cannot read %ss: %s", lines->what, strerror(-r)) : 0;
}

int lines_load(struct lines *lines,
	       int (*each)(void *data, const struct lines *lines, const char *text,
			   size_t length),
	       void *data)
{
	char *text = NULL;
	size_t length = 0;
	int r = lines_read(lines, &text, &length);

	if (r < 0)
		return r;
	r = lines_each(lines, text, length, each, data);
	free(text);
	return r;
}
