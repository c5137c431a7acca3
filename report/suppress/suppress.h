/* SPDX-License-Identifier: MIT
 *
 * Suppressions with the syntax of LeakSanitizer: finds the one that matches a stack, and counts
 * what each one suppressed. Must not depend on ledgers, and must not print.
 */
#pragma once

#include "report/suppress/pattern_file.h"

struct report_frame;

#define SUPPRESSIONS_MAX 65536 /* maximum number of patterns; lines.h has further limits */

/* One `leak:PATTERN` per line. */
extern const struct pattern_syntax suppression_syntax;

/* Returns the index of the first pattern that matches the function, file or module of one of the
 * FRAMES, or their fingerprint. Returns -1 if none matches. Unknown names (NULL or "") never match.
 * SUPPRESSIONS may be NULL. */
int suppressions_match(const struct pattern_file *suppressions, const struct report_frame *frames,
		       size_t frame_count);

/* Records that pattern INDEX suppressed BLOCKS and BYTES. */
void suppressions_count(struct pattern_file *suppressions, int index, uint64_t blocks,
			uint64_t bytes);

/* Returns the number of patterns (0 for NULL). */
size_t suppressions_size(const struct pattern_file *suppressions);
