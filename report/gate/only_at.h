/* SPDX-License-Identifier: MIT
 *
 * The policy "no allocation but here": a file of places that may allocate. One rule a line:
 *
 *     site:PATTERN   stacks in which a frame's function, file or module matches
 *     kind:pinned    a kind of memory, from anywhere
 *     api:NAME       a call, from anywhere
 *
 * Reads and matches; the verdict is judge_only_at.c's.
 */
#ifndef GPULEAK_REPORT_ONLY_AT_H
#define GPULEAK_REPORT_ONLY_AT_H

#include <stdbool.h>
#include <stddef.h>

struct only_at;
struct report_site;

#define ONLY_AT_MAX 65536

/* Both return 0 and *RET to be destroyed by the caller, or -errno with "NAME:LINE: what" in
 * ERROR. */
int only_at_parse(const char *text, size_t length, const char *name, struct only_at **ret,
		  char *error, size_t error_size);
int only_at_load(const char *path, struct only_at **ret, char *error, size_t error_size);

/* Returns true if a rule allows SITE to allocate. */
bool only_at_allows(const struct only_at *policy, const struct report_site *site);

/* Its path. */
const char *only_at_name(const struct only_at *policy);

void only_at_destroy(struct only_at *policy); /* NULL is fine */

#endif
