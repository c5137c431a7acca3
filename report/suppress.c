/* SPDX-License-Identifier: MIT
 *
 * Suppression files: what a line means, and which line a stack matches. Must not print.
 */
#include "suppress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "lines.h"
#include "wildcard.h"

struct suppression {
	char *pattern; /* as written */
	struct wildcard wildcard;
	unsigned int line;
	int matched;
	uint64_t blocks;
	uint64_t bytes;
};

struct suppressions {
	struct suppression *rows;
	size_t count;
	size_t room;
};

/* Makes *ROW match what its pattern says. 0, -ENOMEM, or -EINVAL if there is nothing to look
 * for: such a line would hide every leak by accident (`leak:*` does it on purpose). */
static int compile(struct suppression *row)
{
	const char *start = row->pattern + (row->pattern[0] == '^');
	size_t length = strlen(start);
	int at_end = length > 0 && start[length - 1] == '$';

	length -= (size_t)at_end;
	return length == 0 ? -EINVAL
			   : wildcard_compile(start, length, start != row->pattern, at_end,
					      &row->wildcard);
}

static void row_finish(struct suppression *row)
{
	free(row->pattern);
	wildcard_finish(&row->wildcard);
}

static int row_add(struct suppressions *s, const char *pattern, size_t length,
		   const struct lines *lines)
{
	struct suppression row = { .line = lines->line };
	int r;

	if (s->count == SUPPRESSIONS_MAX)
		return lines_fail(lines, -E2BIG, "more than %d suppressions", SUPPRESSIONS_MAX);
	if (s->count == s->room) {
		size_t room = s->room ? s->room * 2 : 16;
		struct suppression *rows = reallocarray(s->rows, room, sizeof(*rows));

		if (!rows)
			return lines_fail(lines, -ENOMEM, "out of memory");
		s->rows = rows;
		s->room = room;
	}
	row.pattern = strndup(pattern, length);
	r = row.pattern ? compile(&row) : -ENOMEM;
	if (r < 0) {
		row_finish(&row);
		return r == -ENOMEM ? lines_fail(lines, r, "out of memory")
				    : lines_fail(lines, r,
						 "the pattern is empty; write leak:PATTERN "
						 "(leak:* is everything)");
	}
	s->rows[s->count++] = row;
	return 0;
}

static int parse_line(void *data, const struct lines *lines, const char *text, size_t length)
{
	static const char type[] = "leak:";
	const size_t type_length = sizeof(type) - 1;
	const char *colon;
	char shown[LINES_QUOTE];

	if (length < type_length || memcmp(text, type, type_length) != 0) {
		colon = memchr(text, ':', length);
		if (colon)
			return lines_fail(lines, -EINVAL,
					  "unknown type '%s'; accepted is leak:PATTERN",
					  lines_quote(text, (size_t)(colon - text), shown));
		return lines_fail(lines, -EINVAL, "cannot read '%s'; accepted is leak:PATTERN",
				  lines_quote(text, length, shown));
	}
	text += type_length;
	length -= type_length;
	lines_trim(&text, &length);
	if (length > SUPPRESSION_PATTERN_MAX)
		return lines_fail(lines, -EINVAL, "the pattern is longer than %d bytes",
				  SUPPRESSION_PATTERN_MAX);
	return row_add(data, text, length, lines);
}

static struct lines lines_of(const char *name, char *error, size_t error_size)
{
	return (struct lines){ "suppression", name, SUPPRESSIONS_BYTES_MAX, 0, error, error_size };
}

int suppressions_parse(const char *text, size_t length, const char *name,
		       struct suppressions **ret, char *error, size_t error_size)
{
	struct lines lines = lines_of(name, error, error_size);
	struct suppressions *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return lines_fail(&lines, -ENOMEM, "out of memory");
	r = lines_each(&lines, text, length, parse_line, s);
	if (r < 0) {
		suppressions_destroy(s);
		return r;
	}
	*ret = s;
	return 0;
}

int suppressions_load(const char *path, struct suppressions **ret, char *error, size_t error_size)
{
	const struct lines lines = lines_of(path, error, error_size);
	char *text = NULL;
	size_t length = 0;
	int r = lines_read(&lines, &text, &length);

	if (r < 0)
		return r;
	r = suppressions_parse(text, length, path, ret, error, error_size);
	free(text);
	return r;
}

static int row_matches(const struct suppression *row, const char *text)
{
	return text && *text && wildcard_matches(&row->wildcard, text);
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
