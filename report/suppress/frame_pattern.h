/* SPDX-License-Identifier: MIT
 *
 * Patterns as in LeakSanitizer: a text that matches anywhere in the function, file or module of
 * a frame, * for any text, ^ and $ for start and end. Suppressions, budgets and policies match
 * stacks with them. LeakSanitizer takes a fingerprint for a name that no frame has, so both can
 * use one file.
 */
#ifndef GPULEAK_REPORT_FRAME_PATTERN_H
#define GPULEAK_REPORT_FRAME_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/util/lines.h"
#include "report/util/wildcard.h"

struct report_frame;

/* A pattern of these words and 16 hexadecimal digits is a fingerprint of the whole stack. */
#define FRAME_PATTERN_STACK "stack:"

struct frame_pattern { /* starts as { 0 } */
	char *text; /* as written */
	int of_stack; /* it is a fingerprint: */
	uint64_t fingerprint;
	struct wildcard wildcard;
};

/* Compiles the LENGTH bytes at TEXT. Returns 0, -ENOMEM, -E2BIG if it is longer than
 * WILDCARD_BYTES_MAX, or -EINVAL if it is empty: an empty pattern would match everything by
 * accident (`*` does so on purpose). On error there is nothing to finish. */
int frame_pattern_compile(struct frame_pattern *ret, const char *text, size_t length);

/* Compiles the rest of LINE. HINT follows "the pattern is empty". 0, or -EINVAL or -ENOMEM with an
 * error. */
int frame_pattern_parse(struct frame_pattern *ret, const struct line *line, const char *hint);

/* Returns true if TEXT matches. NULL and "" never match. */
bool frame_pattern_match(const struct frame_pattern *pattern, const char *text);

/* Returns true if one of FRAMES matches, or if their fingerprint is the pattern's. */
bool frame_pattern_match_any(const struct frame_pattern *pattern,
			    const struct report_frame *frames, size_t count);

void frame_pattern_finish(struct frame_pattern *pattern);

#endif
