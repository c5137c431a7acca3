/* SPDX-License-Identifier: MIT
 *
 * Suppressions with the syntax of LeakSanitizer: parses them, finds the one that matches a
 * stack, and counts what each one suppressed. Must not depend on ledgers, and must not print.
 */
#ifndef GPULEAK_REPORT_SUPPRESS_H
#define GPULEAK_REPORT_SUPPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct report_frame;
struct suppressions;

#define SUPPRESSIONS_MAX 65536 /* maximum number of patterns; lines.h has further limits */

/* Parses the LENGTH bytes of TEXT: one `leak:PATTERN` per line, empty lines, and comments that
 * begin with `#`. NAME describes the text in errors. Returns 0, or -errno with "NAME:LINE: ..." in
 * ERROR and *RET unchanged. The caller destroys *RET. */
int suppressions_parse(const char *text, size_t length, const char *name,
		       struct suppressions **ret, char *error, size_t error_size);

/* Does the same, but ignores invalid lines. ERROR describes the first invalid line, or is "".
 * Returns 0 or -ENOMEM. */
int suppressions_parse_good(const char *text, size_t length, const char *name,
			    struct suppressions **ret, char *error, size_t error_size);

/* Does the same as suppressions_parse() for the file at PATH. */
int suppressions_load(const char *path, struct suppressions **ret, char *error, size_t error_size);

/* Returns the index of the first pattern that matches the function, file or module of one of the
 * FRAMES, or their fingerprint. Returns -1 if none matches. Unknown names (NULL or "") never match.
 * SUPPRESSIONS may be NULL. */
int suppressions_match(const struct suppressions *suppressions, const struct report_frame *frames,
		       size_t frame_count);

/* Records that pattern INDEX suppressed BLOCKS and BYTES. */
void suppressions_count(struct suppressions *suppressions, int index, uint64_t blocks,
			uint64_t bytes);

/* suppressions_size() returns the number of patterns (0 for NULL). suppressions_use() returns what
 * pattern INDEX suppressed. */
size_t suppressions_size(const struct suppressions *suppressions);
struct suppression_use {
	const char *pattern; /* as in the file without "leak:"; valid as long as the suppressions */
	unsigned int line;
	bool matched;         /* suppressions_count() was called for it */
	uint64_t blocks;
	uint64_t bytes;
};
struct suppression_use suppressions_use(const struct suppressions *suppressions, size_t index);

/* SUPPRESSIONS may be NULL. */
void suppressions_destroy(struct suppressions *suppressions);

#endif
