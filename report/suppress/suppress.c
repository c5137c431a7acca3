/* SPDX-License-Identifier: MIT
 *
 * Parses suppression files and matches stacks against them. Must not print.
 */
#include "report/suppress/suppress.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/suppress/frame_pattern.h"
#include "report/util/lines.h"

struct suppression {
	struct frame_pattern pattern;
	unsigned int line;
	bool matched;
	uint64_t blocks;
	uint64_t bytes;
};

struct suppressions {
	struct suppression *list;
	size_t count;
};

static int parse_pattern(struct suppressions *s, const struct line *line)
{
	struct suppression entry = { .line = line->file->line };
	struct suppression *list;
	int r;

	list = lines_grow(line->file, s->list, s->count, sizeof(*list), SUPPRESSIONS_MAX, &r);
	if (!list)
		return r;
	s->list = list;
	r = frame_pattern_parse(&entry.pattern, line,
				"; write leak:PATTERN (leak:* matches each leak)");
	if (r == 0)
		s->list[s->count++] = entry;
	return r;
}

static int parse_suppression(void *data, struct line *line)
{
	static const char *const type = "leak";
	char shown[LINES_QUOTE];
	struct line_part word = { line->at, line->length };
	const char *colon;

	if (line_type(line, &type, 1) == 0) {
		line_skip(line, 0);
		return parse_pattern(data, line);
	}
	colon = memchr(word.text, ':', word.length);
	if (!colon)
		return lines_fail(line->file, -EINVAL, "cannot read '%s'; accepted is leak:PATTERN",
				  lines_quote(word, shown));
	word.length = (size_t)(colon - word.text);
	return lines_fail(line->file, -EINVAL, "unknown type '%s'; accepted is leak:PATTERN",
			  lines_quote(word, shown));
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
	return finish_parse(s, lines_each(&lines, text, length, parse_suppression, s), ret);
}

struct forgiving {
	struct suppressions *suppressions;
	char first[256]; /* the first error, or "" */
};

static int parse_good_line(void *data, struct line *line)
{
	struct forgiving *forgiving = data;
	int r = parse_suppression(forgiving->suppressions, line);

	if (r < 0 && r != -ENOMEM && !forgiving->first[0])
		snprintf(forgiving->first, sizeof(forgiving->first), "%s", line->file->error);
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
	/* the whole text is invalid; the lines before the error are used */
	if (r < 0 && r != -ENOMEM) {
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
	return finish_parse(s, lines_each(&lines, NULL, 0, parse_suppression, s), ret);
}

int suppressions_match(const struct suppressions *suppressions, const struct report_frame *frames,
		       size_t frame_count)
{
	for (size_t i = 0; suppressions && i < suppressions->count; i++)
		if (frame_pattern_match_any(&suppressions->list[i].pattern, frames, frame_count))
			return (int)i;
	return -1;
}

void suppressions_count(struct suppressions *suppressions, int index, uint64_t blocks,
			uint64_t bytes)
{
	struct suppression *entry;

	if (!suppressions || index < 0 || (size_t)index >= suppressions->count)
		return;
	entry = &suppressions->list[index];
	entry->matched = true;
	entry->blocks += blocks;
	entry->bytes += bytes;
}

size_t suppressions_size(const struct suppressions *suppressions)
{
	return suppressions ? suppressions->count : 0;
}

struct suppression_use suppressions_use(const struct suppressions *suppressions, size_t index)
{
	const struct suppression *entry = &suppressions->list[index];
	struct suppression_use use = { entry->pattern.text, entry->line, entry->matched,
				       entry->blocks, entry->bytes };

	return use;
}

void suppressions_destroy(struct suppressions *suppressions)
{
	if (!suppressions)
		return;
	for (size_t i = 0; i < suppressions->count; i++)
		frame_pattern_finish(&suppressions->list[i].pattern);
	free(suppressions->list);
	free(suppressions);
}
