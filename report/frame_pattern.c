/* SPDX-License-Identifier: MIT
 *
 * What ^ and $ mean; the rest is wildcard.c's.
 */
#include "frame_pattern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frame.h"

static int compile(struct frame_pattern *pattern)
{
	const char *start = pattern->text + (pattern->text[0] == '^');
	size_t length = strlen(start);
	int at_end = length > 0 && start[length - 1] == '$';

	length -= (size_t)at_end;
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

int frame_pattern_match(const struct frame_pattern *pattern, const char *text)
{
	return text && *text && wildcard_matches(&pattern->wildcard, text);
}

int frame_pattern_match_any(const struct frame_pattern *pattern,
			    const struct report_frame *frames, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (frame_pattern_match(pattern, frames[i].function) ||
		    frame_pattern_match(pattern, frames[i].file) ||
		    frame_pattern_match(pattern, frames[i].module))
			return 1;
	return 0;
}

void frame_pattern_finish(struct frame_pattern *pattern)
{
	free(pattern->text);
	wildcard_finish(&pattern->wildcard);
	*pattern = (struct frame_pattern){ 0 };
}
