/* SPDX-License-Identifier: MIT
 *
 * Expands %p, %h, %e, %q{VAR} and %% in the paths of GPULEAK_REPORT and GPULEAK_LEDGER.
 * No allocation, no stdio.
 */
#ifndef GPULEAK_LEDGER_PATTERN_H
#define GPULEAK_LEDGER_PATTERN_H

#include <stddef.h>

struct pattern_values {
	int pid;
	const char *host;
	const char *program;              /* base name; '/' in any value becomes '_' */
	const char *(*variable)(const char *name); /* getenv or the like; NULL result = "" */
};

/* Writes the expansion of PATTERN, NUL-terminated, to RET of SIZE bytes.
 * 0, -ENAMETOOLONG, or -EINVAL for an unknown % sequence. */
int pattern_expand(const char *pattern, const struct pattern_values *values, char *ret,
		   size_t size);

#endif
