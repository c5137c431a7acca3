/* SPDX-License-Identifier: MIT
 *
 * Suppressions in LeakSanitizer's syntax: parses them, says which one a stack matches,
 * and keeps what each suppressed. Knows nothing of ledgers or output; prints nothing.
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

/* The same, but a line that is none is passed over: ERROR tells of the first, "" if there was
 * none. 0 or -ENOMEM. */
int suppressions_parse_good(const char *text, size_t length, const char *name,
			    struct suppressions **ret, char *error, size_t error_size);

/* The same for the file at PATH. */
int suppressions_load(const char *path, struct suppressions **ret, char *error, size_t error_size);

/* The number of the first pattern that matches the function, file or module of any of the
 * FRAMES (NULL and "" match nothing), or -1. SUPPRESSIONS may be NULL: nothing matches. */
int suppressions_match(const struct suppressions *suppressions, const struct report_frame *frames,
		       size_t frame_count);

/* Notes that pattern INDEX suppressed that much. */
void suppressions_count(struct suppressions *suppressions, int index, uint64_t blocks,
			uint64_t bytes);

/* How many patterns there are (0 for NULL), and what is known of each. */
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
