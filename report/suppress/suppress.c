/* SPDX-License-Identifier: MIT
 *
 * Parses suppressions and matches stacks against them. Must not print.
 */
#include "report/suppress/suppress.h"

#include <string.h>

static int parse_suppression(struct pattern_file *file, struct line *line,
			     struct pattern_rule *ret)
{
	static const char *const type = "leak";
	struct line_part word = line_rest(line);
	const char *colon;

	(void)file;
	if (line_type(line, &type, 1) == 0) {
		line_skip(line, 0);
		return frame_pattern_parse(&ret->pattern, line,
					   "; write leak:PATTERN (leak:* matches each leak)");
	}
	colon = memchr(word.text, ':', word.length);
	if (!colon)
		return line_fail(line, "cannot read '%s'; accepted is leak:PATTERN", QUOTED(word));
	word.length = (size_t)(colon - word.text);
	return line_fail(line, "unknown type '%s'; accepted is leak:PATTERN", QUOTED(word));
}

const struct pattern_syntax suppression_syntax = { "suppression", SUPPRESSIONS_MAX,
						   parse_suppression, NULL };

int suppressions_match(const struct pattern_file *suppressions, const struct report_frame *frames,
		       size_t frame_count)
{
	for (size_t i = 0; i < suppressions_size(suppressions); i++)
		if (frame_pattern_match_any(&suppressions->rules[i].pattern, frames, frame_count))
			return (int)i;
	return -1;
}

void suppressions_count(struct pattern_file *suppressions, int index, uint64_t blocks,
			uint64_t bytes)
{
	struct pattern_rule *rule;

	if (index < 0 || (size_t)index >= suppressions_size(suppressions))
		return;
	rule = &suppressions->rules[index];
	rule->matched = true;
	rule->blocks += blocks;
	rule->bytes += bytes;
}

size_t suppressions_size(const struct pattern_file *suppressions)
{
	return suppressions ? suppressions->count : 0;
}
