/* SPDX-License-Identifier: MIT
 *
 * Suppressions in LeakSanitizer's syntax: parses them, finds the one that matches a stack, and
 * counts what each suppressed. Must not know ledgers, and must not print.
 */
#ifndef GPULEAK_REPORT_SUPPRESS_H
#define GPULEAK_REPORT_SUPPRESS_H

#include <stddef.h>
#include <stdint.h>

struct report_frame;
struct suppressions;

#define SUPPRESSIONS_MAX 65536 /* see also lines.h */

/* Parses LENGTH bytes of TEXT: one `leak:PATTERN` a line, empty lines, `#` comments. NAME
 * is what errors call the text. 0 and *RET (to be destroyed by the caller), or -errno with
 * "NAME:LINE: what" in ERROR and *RET untouched. */
int suppressions_parse(const char *text, size_t length, const char *name,
		       struct suppressions **ret, char *error, size_t error_size);

/* Parses the same, but ignores bad lines: ERROR describes the first of them, or is "". 0 or
 * -ENOMEM. */
int suppressions_parse_good(const char *text, size_t length, const char *name,
			    struct suppressions **ret, char *error, size_t error_size);

/* Parses the file at PATH. */
int suppressions_load(const char *path, struct suppressions **ret, char *error, size_t error_size);

/* Returns the index of the first pattern that matches the function, file or module of any of the
 * FRAMES, or -1. NULL and "" match nothing. SUPPRESSIONS may be NULL. */
int suppressions_match(const struct suppressions *suppressions, const struct report_frame *frames,
		       size_t frame_count);

/* Notes that pattern INDEX suppressed that much. */
void suppressions_count(struct suppressions *suppressions, int index, uint64_t blocks,
			uint64_t bytes);

/* suppressions_size() returns the number of patterns (0 for NULL); suppressions_use() the use of
 * one. */
size_t suppressions_size(const struct suppressions *suppressions);
struct suppression_use {
	const char *pattern; /* as written, without leak:; lives as long as the suppressions */
	unsigned int line;
	int matched;         /* suppressions_count was called for it */
	uint64_t blocks;
	uint64_t bytes;
};
struct suppression_use suppressions_use(const struct suppressions *suppressions, size_t index);

/* NULL is fine. */
void suppressions_destroy(struct suppressions *suppressions);

#endif
