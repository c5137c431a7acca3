/* SPDX-License-Identifier: MIT
 *
 * Expands %p, %h, %e, %q{VAR} and %% in the paths of GPULEAK_REPORT and GPULEAK_LEDGER. Any
 * thread may call it. No allocation, no stdio.
 */
#pragma once

#include <stddef.h>

struct pattern_values {
	int pid;
	const char *host;
	const char *program;              /* base name; each '/' in a value becomes '_' */
	const char *(*variable)(const char *name); /* a function like getenv; NULL counts as "" */
};

/* Writes the expansion of PATTERN, with a final NUL, to the SIZE bytes at RET. Returns 0,
 * -ENAMETOOLONG, or -EINVAL if a % sequence is unknown. */
int pattern_expand(const char *pattern, const struct pattern_values *values, char *ret,
		   size_t size);
