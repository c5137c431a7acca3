/* SPDX-License-Identifier: MIT
 *
 * The policy file of --only-at: the call sites that may allocate. One rule per line:
 *
 *     site:PATTERN   stacks in which a frame's function, file or module matches
 *     kind:pinned    a kind of memory, from any call site
 *     api:NAME       a call, from any call site
 *
 * Reads and matches rules. judge_only_at.c decides the gate.
 */
#ifndef GPULEAK_REPORT_ONLY_AT_H
#define GPULEAK_REPORT_ONLY_AT_H

#include <stdbool.h>
#include <stddef.h>

struct only_at;
struct report_site;

#define ONLY_AT_MAX 65536

/* Read a policy from TEXT or from the file at PATH. Return 0, or -errno with "NAME:LINE: ..." in
 * ERROR. The caller destroys *RET. */
int only_at_parse(const char *text, size_t length, const char *name, struct only_at **ret,
		  char *error, size_t error_size);
int only_at_load(const char *path, struct only_at **ret, char *error, size_t error_size);

/* Returns true if a rule allows SITE to allocate. */
bool only_at_allows(const struct only_at *policy, const struct report_site *site);

/* Returns the path of the policy file. */
const char *only_at_name(const struct only_at *policy);

void only_at_destroy(struct only_at *policy); /* POLICY may be NULL */

#endif
