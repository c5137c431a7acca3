/* SPDX-License-Identifier: MIT
 *
 * Suppression files and their matching. A pattern is cut at its stars once; matching then
 * looks for the pieces from left to right and never goes back, which is linear and finds
 * a match where there is one. Must not print.
 */
#include "suppress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frame.h"

struct suppression {
	char *pattern;       /* as written */
	char *pieces;        /* what stands between the stars, each ended by NUL */
	unsigned int count;  /* of pieces, at least 1 */
	unsigned int line;
	int anchored_start;
	int anchored_end;
	int matched;
	uint64_t blocks;
	uint64_t bytes;
};

struct suppressions {
	struct suppression *rows;
	size_t count;
	size_t room;
};

struct parse { /* where an error is */
	const char *name;
	unsigned int line;
	char *error;
	size_t error_size;
};

__attribute__((format(printf, 3, 4)))
static int fail(const struct parse *parse, int r, const char *format, ...)
{
	va_list args;
	int n;

	n = parse->line ? snprintf(parse->error, parse->error_size, "%s:%u: ", parse->name,
				   parse->line)
			: snprintf(parse->error, parse->error_size, "%s: ", parse->name);
	if (n < 0 || (size_t)n >= parse->error_size)
		return r;
	va_start(args, format);
	vsnprintf(parse->error + n, parse->error_size - (size_t)n, format, args);
	va_end(args);
	return r;
}

/* Cuts *ROW's pieces out of its pattern. 0, or -EINVAL if there is nothing to look for:
 * such a line would hide every leak by accident (`leak:*` does it on purpose). */
static int compile(struct suppression *row)
{
	char *at = row->pieces;
	size_t length;

	strcpy(at, row->pattern);
	if (*at == '^') {
		row->anchored_start = 1;
		memmove(at, at + 1, strlen(at));
	}
	length = strlen(at);
	if (length > 0 && at[length - 1] == '$') {
		row->anchored_end = 1;
		at[--length] = '\0';
	}
	if (length == 0)
		return -EINVAL;
	row->count = 1;
	for (; *at; at++) {
		if (*at != '*')
			continue;
		*at = '\0';
		row->count++;
	}
	return 0;
}

static void row_finish(struct suppression *row)
{
	free(row->pattern);
	free(row->pieces);
}

static int row_add(struct suppressions *s, const char *pattern, size_t length,
		   const struct parse *parse)
{
	struct suppression row = { .line = parse->line };

	if (s->count == SUPPRESSIONS_MAX)
		return fail(parse, -E2BIG, "more than %d suppressions", SUPPRESSIONS_MAX);
	if (s->count == s->room) {
		size_t room = s->room ? s->room * 2 : 16;
		struct suppression *rows = reallocarray(s->rows, room, sizeof(*rows));

		if (!rows)
			return fail(parse, -ENOMEM, "out of memory");
		s->rows = rows;
		s->room = room;
	}
	row.pattern = strndup(pattern, length);
	row.pieces = malloc(length + 1);
	if (!row.pattern || !row.pieces) {
		row_finish(&row);
		return fail(parse, -ENOMEM, "out of memory");
	}
	if (compile(&row) < 0) {
		row_finish(&row);
		return fail(parse, -EINVAL,
			    "the pattern is empty; write leak:PATTERN (leak:* is everything)");
	}
	s->rows[s->count++] = row;
	return 0;
}

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static void trim(const char **text, size_t *length)
{
	while (*length > 0 && is_blank((*text)[0])) {
		(*text)++;
		(*length)--;
	}
	while (*length > 0 && is_blank((*text)[*length - 1]))
		(*length)--;
}

/* The start of a bad line, fit to be printed. */
static const char *quote(const char *text, size_t length, char ret[33])
{
	size_t n = length < 32 ? length : 32;

	for (size_t i = 0; i < n; i++)
		ret[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '.';
	ret[n] = '\0';
	return ret;
}

static int parse_line(struct suppressions *s, const char *text, size_t length,
		      const struct parse *parse)
{
	static const char type[] = "leak:";
	const size_t type_length = sizeof(type) - 1;
	const char *colon;
	char shown[33];

	trim(&text, &length);
	if (length == 0 || text[0] == '#')
		return 0;
	if (memchr(text, '\0', length))
		return fail(parse, -EINVAL, "a NUL byte: this is not a suppression file");
	if (length < type_length || memcmp(text, type, type_length) != 0) {
		colon = memchr(text, ':', length);
		if (colon)
			return fail(parse, -EINVAL, "unknown type '%s'; accepted is leak:PATTERN",
				    quote(text, (size_t)(colon - text), shown));
		return fail(parse, -EINVAL, "cannot read '%s'; accepted is leak:PATTERN",
			    quote(text, length, shown));
	}
	text += type_length;
	length -= type_length;
	trim(&text, &length);
	if (length > SUPPRESSION_PATTERN_MAX)
		return fail(parse, -EINVAL, "the pattern is longer than %d bytes",
			    SUPPRESSION_PATTERN_MAX);
	return row_add(s, text, length, parse);
}

static int parse_lines(struct suppressions *s, const char *text, size_t length,
		       struct parse *parse)
{
	const char *end = text + length;
	int r;

	if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3; /* some editors begin UTF-8 files with a byte order mark */
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end;

		parse->line++;
		r = parse_line(s, text, (size_t)(stop - text), parse);
		if (r < 0)
			return r;
		text = newline ? newline + 1 : end;
	}
	return 0;
}

int suppressions_parse(const char *text, size_t length, const char *name,
		       struct suppressions **ret, char *error, size_t error_size)
{
	struct parse parse = { name, 0, error, error_size };
	struct suppressions *s;
	int r;

	if (length > SUPPRESSIONS_BYTES_MAX)
		return fail(&parse, -EFBIG, "larger than %u MiB: this is not a suppression file",
			    SUPPRESSIONS_BYTES_MAX >> 20);
	s = calloc(1, sizeof(*s));
	if (!s)
		return fail(&parse, -ENOMEM, "out of memory");
	r = parse_lines(s, text, length, &parse);
	if (r < 0) {
		suppressions_destroy(s);
		return r;
	}
	*ret = s;
	return 0;
}

/* Reads until the end or one byte more than is allowed; not by size, so that a pipe works. */
static int read_all(int fd, char **ret_text, size_t *ret_length)
{
	size_t length = 0, room = 4096;
	char *text = malloc(room);

	while (text && length <= SUPPRESSIONS_BYTES_MAX) {
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

int suppressions_load(const char *path, struct suppressions **ret, char *error, size_t error_size)
{
	const struct parse parse = { path, 0, error, error_size };
	char *text = NULL;
	size_t length = 0;
	int fd, r;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(&parse, -errno, "cannot read suppressions: %s", strerror(errno));
	r = read_all(fd, &text, &length);
	close(fd);
	if (r < 0)
		return fail(&parse, r, "cannot read suppressions: %s", strerror(-r));
	r = suppressions_parse(text, length, path, ret, error, error_size);
	free(text);
	return r;
}

/* Each piece is taken as early as possible: what is left for the next ones is then as
 * long as it can be, so going back could not find more. Only the last piece of a pattern
 * that ends in $ has its place given. */
static int row_matches(const struct suppression *row, const char *text)
{
	const char *piece = row->pieces;
	size_t length, left;

	if (!text || !*text)
		return 0;
	for (unsigned int i = 0; i < row->count; i++, piece += length + 1) {
		length = strlen(piece);
		if (i == 0 && row->anchored_start) {
			if (strncmp(text, piece, length) != 0)
				return 0;
			text += length;
			if (row->count == 1 && row->anchored_end)
				return *text == '\0';
			continue;
		}
		if (i == row->count - 1 && row->anchored_end) {
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

int suppressions_match(const struct suppressions *suppressions, const struct report_frame *frames,
		       size_t frame_count)
{
	for (size_t i = 0; suppressions && i < suppressions->count; i++) {
		const struct suppression *row = &suppressions->rows[i];

		for (size_t f = 0; f < frame_count; f++)
			if (row_matches(row, frames[f].function) ||
			    row_matches(row, frames[f].file) || row_matches(row, frames[f].module))
				return (int)i;
	}
	return -1;
}

void suppressions_count(struct suppressions *suppressions, int index, uint64_t blocks,
			uint64_t bytes)
{
	struct suppression *row;

	if (!suppressions || index < 0 || (size_t)index >= suppressions->count)
		return;
	row = &suppressions->rows[index];
	row->matched = 1;
	row->blocks += blocks;
	row->bytes += bytes;
}

size_t suppressions_size(const struct suppressions *suppressions)
{
	return suppressions ? suppressions->count : 0;
}

struct suppression_use suppressions_use(const struct suppressions *suppressions, size_t index)
{
	const struct suppression *row = &suppressions->rows[index];
	struct suppression_use use = { row->pattern, row->line, row->matched, row->blocks,
				       row->bytes };

	return use;
}

void suppressions_destroy(struct suppressions *suppressions)
{
	if (!suppressions)
		return;
	for (size_t i = 0; i < suppressions->count; i++)
		row_finish(&suppressions->rows[i]);
	free(suppressions->rows);
	free(suppressions);
}
