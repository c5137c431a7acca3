/* SPDX-License-Identifier: MIT
 *
 * Patterns in LeakSanitizer's manner: a text that is looked for anywhere, * for anything,
 * ^ and $ for the beginning and the end. What all files of rules match frames with.
 */
#ifndef GPULEAK_REPORT_WILDCARD_H
#define GPULEAK_REPORT_WILDCARD_H

#include <stddef.h>

struct report_frame;

#define WILDCARD_MAX 4096

struct wildcard { /* starts as { 0 } */
	char *pattern;      /* as written */
	char *pieces;       /* what stands between the stars, each ended by NUL */
	unsigned int count; /* of pieces, at least 1 */
	int anchored_start;
	int anchored_end;
};

/* Compiles the LENGTH bytes at PATTERN. 0, -ENOMEM, -E2BIG if it is longer than WILDCARD_MAX,
 * or -EINVAL if there is nothing to look for: such a line would match everything by accident
 * (`*` does it on purpose). On error nothing is left to finish. */
int wildcard_compile(struct wildcard *ret, const char *pattern, size_t length);

/* Whether TEXT matches. NULL and "" never do. */
int wildcard_match(const struct wildcard *wildcard, const char *text);

/* Whether the function, file or module of one of FRAMES does. */
int wildcard_match_frames(const struct wildcard *wildcard, const struct report_frame *frames,
			  size_t count);

void wildcard_finish(struct wildcard *wildcard);

#endif
