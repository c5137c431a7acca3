/* SPDX-License-Identifier: MIT
 *
 * Implements ^, $ and fingerprints. wildcard.c implements the stars.
 */
#include "report/suppress/frame_pattern.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/symbols/fingerprint.h"
#include "report/symbols/frame.h"

/* Returns true if TEXT is the fingerprint of a stack, and stores it in *RET. */
static int parse_fingerprint(const char *text, uint64_t *ret)
{
	static const char start[] = FRAME_PATTERN_STACK, digits[] = "0123456789abcdef";

	if (strncmp(text, start, sizeof(start) - 1) != 0)
		return 0;
	text += sizeof(start) - 1;
	if (strlen(text) != FINGERPRINT_TEXT - 1 || strspn(text, digits) != FINGERPRINT_TEXT - 1)
		return 0;
	*ret = strtoull(text, NULL, 16);
	return 1;
}

static int compile(struct frame_pattern *pattern)
{
	const char *start = pattern->text + (pattern->text[0] == '^');
	size_t length = strlen(start);
	int at_end = length > 0 && start[length - 1] == '$';

	length -= (size_t)at_end;
	pattern->of_stack = parse_fingerprint(pattern->text, &pattern->fingerprint);
	return length == 0 ? -EINVAL
			   : wildcard_compile(start, length, start != pattern->text, at_end,
					      &pattern->wildcard);
}

int frame_pattern_compile(struct frame_pattern *ret, const char *text, size_t length)
{
	struct frame_pattern pattern = { 0 };
	int r;

	if (length > WILDCARD_BYTES_MAX)
		return -E2BIG;
	pattern.text = strndup(text, length);
	r = pattern.text ? compile(&pattern) : -ENOMEM;
	if (r < 0)
		frame_pattern_finish(&pattern);
	else
		*ret = pattern;
	return r;
}

int frame_pattern_parse(struct frame_pattern *ret, const struct line *line, const char *hint)
{
	switch (frame_pattern_compile(ret, line->at, line->length)) {
	case 0:
		return 0;
	case -E2BIG:
		return lines_fail(line->file, -EINVAL, "the pattern is longer than %d bytes",
				  WILDCARD_BYTES_MAX);
	case -EINVAL:
		return lines_fail(line->file, -EINVAL, "the pattern is empty%s", hint);
	}
	return lines_fail(line->file, -ENOMEM, "out of memory");
}

bool frame_pattern_match(const struct frame_pattern *pattern, const char *text)
{
	return text && *text && wildcard_matches(&pattern->wildcard, text);
}

bool frame_pattern_match_any(const struct frame_pattern *pattern,
			    const struct report_frame *frames, size_t count)
{
	uint64_t fingerprint;

	if (pattern->of_stack)
		return report_stack_fingerprint(frames, count, &fingerprint) == 0 &&
		       fingerprint == pattern->fingerprint;
	for (size_t i = 0; i < count; i++)
		if (frame_pattern_match(pattern, frames[i].function) ||
		    frame_pattern_match(pattern, frames[i].file) ||
		    frame_pattern_match(pattern, frames[i].module))
			return true;
	return false;
}

void frame_pattern_finish(struct frame_pattern *pattern)
{
	free(pattern->text);
	wildcard_finish(&pattern->wildcard);
	*pattern = (struct frame_pattern){ 0 };
}
