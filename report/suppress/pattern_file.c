/* SPDX-License-Identifier: MIT
 *
 * Adds a rule for each line of a file.
 */
#include "report/suppress/pattern_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/memory.h"

struct rule_reading {
	const struct pattern_syntax *syntax;
	struct pattern_file *file;
	char *error; /* describes the first invalid line, or is "" */
	size_t error_size;
};

static void finish_rule(struct pattern_rule *rule)
{
	free(rule->text);
	frame_pattern_finish(&rule->pattern);
}

static int add_rule(void *data, struct line *line)
{
	const struct rule_reading *reading = data;
	struct pattern_file *file = reading->file;
	struct pattern_rule rule = { .line = line->file->line };
	int r;

	if (file->count == reading->syntax->max)
		return lines_fail(line->file, -E2BIG, "more than %zu %ss", file->count,
				  line->file->what);
	r = reading->syntax->parse(file, line, &rule);
	if (r != 0) {
		finish_rule(&rule);
		return r < 0 ? r : 0;
	}
	*LIST_ADD(file->rules, file->count) = rule;
	return 0;
}

static int add_good_rule(void *data, struct line *line)
{
	struct rule_reading *reading = data;

	if (add_rule(data, line) < 0 && !reading->error[0])
		snprintf(reading->error, reading->error_size, "%s", line->file->error);
	return 0;
}

static struct pattern_file *create(const char *name)
{
	struct pattern_file *ret = calloc(1, sizeof(*ret));

	ret->name = strdup(name);
	return ret;
}

int pattern_file_parse(const struct pattern_syntax *syntax, const char *text, size_t length,
		       const char *name, struct pattern_file **ret, char *error,
		       size_t error_size)
{
	struct lines lines = { syntax->what, name, LINES_BYTES_MAX, 0, error, error_size };
	struct rule_reading reading = { .syntax = syntax, .file = create(name) };
	int r = lines_each(&lines, text, length, add_rule, &reading);

	if (r == 0 && syntax->check)
		r = syntax->check(reading.file, &lines);
	if (r < 0)
		pattern_file_destroy(reading.file);
	else
		*ret = reading.file;
	return r;
}

struct pattern_file *pattern_file_parse_good(const struct pattern_syntax *syntax, const char *text,
					     size_t length, const char *name, char *error,
					     size_t error_size)
{
	char last[256] = "";
	struct lines lines = { syntax->what, name, LINES_BYTES_MAX, 0, last, sizeof(last) };
	struct rule_reading reading = { syntax, create(name), error, error_size };

	*error = '\0';
	/* If the whole text is invalid, the lines before the error are used. */
	if (lines_each(&lines, text, length, add_good_rule, &reading) < 0)
		snprintf(error, error_size, "%s", last);
	return reading.file;
}

void pattern_file_destroy(struct pattern_file *file)
{
	if (!file)
		return;
	for (size_t i = 0; i < file->count; i++)
		finish_rule(&file->rules[i]);
	free(file->rules);
	free(file->name);
	free(file);
}
