/* SPDX-License-Identifier: MIT
 *
 * Suppression files: what a line means, and which line a stack matches. Must not print.
 */
#include "report/suppress/suppress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/suppress/frame_pattern.h"
#include "report/util/lines.h"

struct suppression {
	struct frame_pattern pattern;
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

static int row_add(struct suppressions *s, const char *pattern, size_t length,
		   const struct lines *lines)
{
	struct suppression row = { .line = lines->line };

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
	switch (frame_pattern_compile(&row.pattern, pattern, length)) {
	case 0:
		s->rows[s->count++] = row;
		return 0;
	case -E2BIG:
		return lines_fail(lines, -EINVAL, "the pattern is longer than %d bytes",
				  WILDCARD_BYTES_MAX);
	case -EINVAL:
		return lines_fail(lines, -EINVAL, "the pattern is empty; write leak:PATTERN "
				  "(leak:* is everything)");
	}
	return lines_fail(lines, -ENOMEM, "out of memory");
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
	return row_add(data, text, length, lines);
}

static struct lines lines_of(const char *name, char *error, size_t error_size)
{
	return (struct lines){ "suppression", name, LINES_BYTES_MAX, 0, error, error_size };
}

static int finish_parse(struct suppressions *s, int r, struct suppressions **ret)
{
	if (r < 0)
		suppressions_destroy(s);
	else
		*ret = s;
	return r;
}

int suppressions_parse(const char *text, size_t length, const char *name,
		       struct suppressions **ret, char *error, size_t error_size)
{
	struct lines lines = lines_of(name, error, error_size);
	struct suppressions *s = calloc(1, sizeof(*s));

	if (!s)
		return lines_fail(&lines, -ENOMEM, "out of memory");
	return finish_parse(s, lines_each(&lines, text, length, parse_line, s), ret);
}

struct forgiving {
	struct suppressions *suppressions;
	char first[256]; /* what was wrong first; "" nothing */
};

static int parse_good_line(void *data, const struct lines *lines, const char *text, size_t length)
{
	struct forgiving *forgiving = data;
	int r = parse_line(forgiving->suppressions, lines, text, length);

	if (r < 0 && r != -ENOMEM && !forgiving->first[0])
		snprintf(forgiving->first, sizeof(forgiving->first), "%s", lines->error);
	return r == -ENOMEM ? r : 0;
}

int suppressions_parse_good(const char *text, size_t length, const char *name,
			    struct suppressions **ret, char *error, size_t error_size)
{
	char line_error[256] = "";
	struct lines lines = lines_of(name, line_error, sizeof(line_error));
	struct forgiving forgiving = { calloc(1, sizeof(*forgiving.suppressions)), "" };
	int r = -ENOMEM;

	if (forgiving.suppressions)
		r = lines_each(&lines, text, length, parse_good_line, &forgiving);
	if (r < 0 && r != -ENOMEM) { /* the text as a whole: what came before it is good */
		snprintf(forgiving.first, sizeof(forgiving.first), "%s", line_error);
		r = 0;
	}
	snprintf(error, error_size, "%s", forgiving.first);
	return finish_parse(forgiving.suppressions, r, ret);
}

int suppressions_load(const char *path, struct suppressions **ret, char *error, size_t error_size)
{
	struct lines lines = lines_of(path, error, error_size);
	struct suppressions *s = calloc(1, sizeof(*s));

	if (!s)
		return lines_fail(&lines, -ENOMEM, "out of memory");
	return finish_parse(s, lines_load(&lines, parse_line, s), ret);
}

int suppressions_match(const struct suppressions *suppressions, const struct report_frame *frames,
		       size_t frame_count)
{
	for (size_t i = 0; suppressions && i < suppressions->count; i++)
		if (frame_pattern_match_any(&suppressions->rows[i].pattern, frames, frame_count))
			return (int)i;
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
	struct suppression_use use = { row->pattern.text, row->line, row->matched, row->blocks,
				       row->bytes };

	return use;
}

void suppressions_destroy(struct suppressions *suppressions)
{
	if (!suppressions)
		return;
	for (size_t i = 0; i < suppressions->count; i++)
		frame_pattern_finish(&suppressions->rows[i].pattern);
	free(suppressions->rows);
	free(suppressions);
}
