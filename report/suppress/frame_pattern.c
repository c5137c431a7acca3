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
static bool parse_fingerprint(const char *text, uint64_t *ret)
{
	static const char start[] = FRAME_PATTERN_STACK, digits[] = "0123456789abcdef";

	if (strncmp(text, start, sizeof(start) - 1) != 0)
		return false;
	text += sizeof(start) - 1;
	if (strlen(text) != FINGERPRINT_DIGITS || strspn(text, digits) != FINGERPRINT_DIGITS)
		return false;
	*ret = strtoull(text, NULL, 16);
	return true;
}

int frame_pattern_compile(struct frame_pattern *ret, const char *text, size_t length)
{
	struct frame_pattern pattern = { 0 };
	struct wildcard *wildcard = &pattern.wildcard;

	if (length > WILDCARD_BYTES_MAX)
		return -E2BIG;
	pattern.text = strndup(text, length);
	wildcard->at_start = pattern.text[0] == '^';
	wildcard->text = pattern.text + wildcard->at_start;
	wildcard->length = strlen(wildcard->text);
	wildcard->at_end = wildcard->length > 0 && wildcard->text[wildcard->length - 1] == '$';
	wildcard->length -= wildcard->at_end;
	if (wildcard->length == 0) {
		free(pattern.text);
		return -EINVAL;
	}
	pattern.of_stack = parse_fingerprint(pattern.text, &pattern.fingerprint);
	*ret = pattern;
	return 0;
}

int frame_pattern_parse(struct frame_pattern *ret, const struct line *line, const char *hint)
{
	switch (frame_pattern_compile(ret, line->at, line->length)) {
	case -E2BIG:
		return line_fail(line, "the pattern is longer than %d bytes", WILDCARD_BYTES_MAX);
	case -EINVAL:
		return line_fail(line, "the pattern is empty%s", hint);
	}
	return 0;
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
		    frame_pattern_match(pattern, frames[i].old_function) ||
		    frame_pattern_match(pattern, frames[i].file) ||
		    frame_pattern_match(pattern, frames[i].module))
			return true;
	return false;
}

void frame_pattern_finish(struct frame_pattern *pattern)
{
	free(pattern->text);
	*pattern = (struct frame_pattern){ 0 };
}
