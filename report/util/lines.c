/* SPDX-License-Identifier: MIT
 *
 * Reads small text files and splits them into lines and words.
 */
#include "report/util/lines.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/util/memory.h"

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

const char *lines_quote(struct line_part word, char ret[LINES_QUOTE])
{
	size_t n = word.length < LINES_QUOTE - 1 ? word.length : LINES_QUOTE - 1;

	for (size_t i = 0; i < n; i++)
		ret[i] = word.text[i] >= ' ' && word.text[i] <= '~' ? word.text[i] : '.';
	ret[n] = '\0';
	return ret;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* Removes the blanks at the end of the line. */
static void trim_end(struct line *line)
{
	while (line->length > 0 && is_blank(line->at[line->length - 1]))
		line->length--;
}

static int each_line(struct lines *lines, const char *text, size_t length, lines_each_fn *each,
		     void *data)
{
	const char *end = text + length;
	int r = 0;

	if (length > lines->bytes_max)
		return lines_fail(lines, -EFBIG, "larger than %zu MiB: this is not a %s file",
				  lines->bytes_max >> 20, lines->what);
	if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3; /* skip the byte order mark of some editors */
	while (text < end && r == 0) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		struct line line = { lines, text, (size_t)((newline ? newline : end) - text) };

		lines->line++;
		line_skip(&line, 0);
		trim_end(&line);
		if (line.length && line.at[0] != '#')
			r = memchr(line.at, '\0', line.length)
				    ? lines_fail(lines, -EINVAL,
						 "a NUL byte: this is not a %s file", lines->what)
				    : each(data, &line);
		text = newline ? newline + 1 : end;
	}
	return r;
}

int lines_each(struct lines *lines, const char *text, size_t length, lines_each_fn *each,
	       void *data)
{
	void *read = NULL;
	int fd, r;

	if (text)
		return each_line(lines, text, length, each, data);
	fd = open(lines->name, O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -errno : read_to_end(fd, lines->bytes_max, &read, &length);
	if (fd >= 0)
		close(fd);
	if (r < 0)
		return lines_fail(lines, r, "cannot read %ss: %s", lines->what, strerror(-r));
	r = each_line(lines, read, length, each, data);
	free(read);
	return r;
}

void line_skip(struct line *line, size_t length)
{
	while (length < line->length && is_blank(line->at[length]))
		length++;
	line->at += length;
	line->length -= length;
}

struct line_part line_word(struct line *line, const char *ends)
{
	struct line_part word = { line->at, 0 };

	while (word.length < line->length && !strchr(ends, word.text[word.length]))
		word.length++;
	line_skip(line, word.length);
	return word;
}

int line_text(struct line *line, struct line_part *ret)
{
	const char *end;

	if (line->length == 0 || line->at[0] != '"') {
		*ret = line_word(line, " \t");
		return 0;
	}
	end = memchr(line->at + 1, '"', line->length - 1);
	if (!end)
		return lines_fail(line->file, -EINVAL, "the closing quote is missing");
	*ret = (struct line_part){ line->at + 1, (size_t)(end - line->at) - 1 };
	if (line->length > ret->length + 2 && end[1] != ' ' && end[1] != '\t')
		return lines_fail(line->file, -EINVAL,
				  "there is no blank behind the closing quote");
	line_skip(line, ret->length + 2);
	return 0;
}

struct line_part line_last_word(struct line *line)
{
	struct line_part word = { line->at + line->length, 0 };

	while (word.text > line->at && word.text[-1] != ' ' && word.text[-1] != '\t') {
		word.text--;
		word.length++;
	}
	line->length -= word.length;
	trim_end(line);
	return word;
}

int line_type(struct line *line, const char *const *types, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t n = strlen(types[i]);

		if (line->length <= n || memcmp(line->at, types[i], n) != 0 || line->at[n] != ':')
			continue;
		line->at += n + 1;
		line->length -= n + 1;
		return (int)i;
	}
	return -1;
}

bool word_is(struct line_part word, const char *text)
{
	return word.length == strlen(text) && memcmp(word.text, text, word.length) == 0;
}

int word_number(struct line_part word, unsigned int base, uint64_t *ret)
{
	uint64_t value = 0;

	for (size_t i = 0; i < word.length; i++) {
		char c = word.text[i];
		unsigned int digit = c >= '0' && c <= '9'   ? (unsigned int)(c - '0')
				     : c >= 'a' && c <= 'f' ? (unsigned int)(c - 'a') + 10
							    : 99;

		if (digit >= base || __builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return -EINVAL;
	}
	*ret = value;
	return word.length ? 0 : -EINVAL;
}
