/* SPDX-License-Identifier: MIT
 *
 * Lines of a file that a user wrote, by whatever editor: byte order marks, CR LF and a last
 * line without an end are fine, NUL bytes are not.
 */
#include "rulefile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int rulefile_fail(const struct rulefile *file, int r, const char *format, ...)
{
	va_list args;
	int n;

	n = file->line ? snprintf(file->error, file->error_size, "%s:%u: ", file->name, file->line)
		       : snprintf(file->error, file->error_size, "%s: ", file->name);
	if (n < 0 || (size_t)n >= file->error_size)
		return r;
	va_start(args, format);
	vsnprintf(file->error + n, file->error_size - (size_t)n, format, args);
	va_end(args);
	return r;
}

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

void rulefile_trim(const char **text, size_t *length)
{
	while (*length > 0 && is_blank((*text)[0])) {
		(*text)++;
		(*length)--;
	}
	while (*length > 0 && is_blank((*text)[*length - 1]))
		(*length)--;
}

const char *rulefile_quote(const char *text, size_t length, char ret[33])
{
	size_t n = length < 32 ? length : 32;

	for (size_t i = 0; i < n; i++)
		ret[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '.';
	ret[n] = '\0';
	return ret;
}

int rulefile_lines(struct rulefile *file, const char *text, size_t length, rulefile_line *each,
		   void *data)
{
	const char *end = text + length;
	int r;

	if (length > RULEFILE_BYTES_MAX)
		return rulefile_fail(file, -EFBIG, "larger than %u MiB: this is not a %s file",
				     RULEFILE_BYTES_MAX >> 20, file->what);
	if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3; /* some editors begin UTF-8 files with a byte order mark */
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *line = text;
		size_t left = (size_t)((newline ? newline : end) - text);

		text = newline ? newline + 1 : end;
		file->line++;
		rulefile_trim(&line, &left);
		if (left == 0 || line[0] == '#')
			continue;
		if (memchr(line, '\0', left))
			return rulefile_fail(file, -EINVAL, "a NUL byte: this is not a %s file",
					     file->what);
		r = each(data, file, line, left);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Reads until the end or one byte more than is allowed; not by size, so that a pipe works. */
static int read_all(int fd, char **ret_text, size_t *ret_length)
{
	size_t length = 0, room = 4096;
	char *text = malloc(room);

	while (text && length <= RULEFILE_BYTES_MAX) {
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

int rulefile_load(struct rulefile *file, rulefile_line *each, void *data)
{
	char *text = NULL;
	size_t length = 0;
	int r, fd = open(file->name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return rulefile_fail(file, -errno, "cannot read this %s file: %s", file->what,
				     strerror(errno));
	r = read_all(fd, &text, &length);
	close(fd);
	if (r < 0)
		return rulefile_fail(file, r, "cannot read this %s file: %s", file->what, strerror(-r));
	r = rulefile_lines(file, text, length, each, data);
	free(text);
	return r;
}
