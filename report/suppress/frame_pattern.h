/* SPDX-License-Identifier: MIT
 *
 * Patterns with the syntax of LeakSanitizer. A pattern matches anywhere in the function, file or
 * module of a frame; a function of Rust matches with and without its hash. * matches any text, ^
 * and $ match start and end. Suppressions, budgets and policies match stacks with them. A pattern
 * can also be the fingerprint of a stack. LeakSanitizer treats a fingerprint as the name of a
 * function that no frame has, so both tools can use the same file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/util/lines.h"
#include "report/util/wildcard.h"

struct report_frame;

/* Prefix of a fingerprint of a whole stack; 16 hexadecimal digits follow. */
#define FRAME_PATTERN_STACK "stack:"

struct frame_pattern { /* starts as { 0 } */
	char *text; /* as in the file */
	bool of_stack; /* the pattern is a fingerprint, and `wildcard` is unused */
	uint64_t fingerprint;
	struct wildcard wildcard;
};

/* Compiles the LENGTH bytes at TEXT. Returns 0, -E2BIG if TEXT is longer than WILDCARD_BYTES_MAX,
 * or -EINVAL if it is empty. An empty pattern would match everything by accident; `*` does so on
 * purpose. On error *RET needs no frame_pattern_finish(). */
int frame_pattern_compile(struct frame_pattern *ret, const char *text, size_t length);

/* Compiles the rest of LINE. If it is empty, the error message is "the pattern is empty" and HINT.
 * Returns 0, or -EINVAL with a message in the error buffer. */
int frame_pattern_parse(struct frame_pattern *ret, const struct line *line, const char *hint);

/* Returns true if TEXT matches. NULL and "" never match. */
bool frame_pattern_match(const struct frame_pattern *pattern, const char *text);

/* Returns true if one of the COUNT FRAMES matches. For a fingerprint, returns true if the frames
 * have this fingerprint. */
bool frame_pattern_match_any(const struct frame_pattern *pattern,
			    const struct report_frame *frames, size_t count);

void frame_pattern_finish(struct frame_pattern *pattern);
