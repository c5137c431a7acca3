/* SPDX-License-Identifier: MIT
 *
 * The file of budgets: how much may leak of what. One rule a line, blanks before the limit:
 *
 *     kind:pinned 64MiB
 *     device:0 1GiB
 *     api:cuMemHostAlloc 3 blocks
 *     site:PATTERN 4MiB          what stacks leak in which a frame matches
 *     cache:PATTERN 2GiB         what a framework's cache of that name holds at the end
 *     peak 8GiB                  the most that one process holds at one time
 *
 * Reads and matches; the verdict is judge_budgets.c's.
 */
#ifndef GPULEAK_REPORT_BUDGETS_H
#define GPULEAK_REPORT_BUDGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/suppress/frame_pattern.h"

struct report_leak;

#define BUDGETS_MAX 4096

enum budget_subject {
	BUDGET_KIND,
	BUDGET_API,
	BUDGET_DEVICE,
	BUDGET_SITE,
	BUDGET_CACHE,
	BUDGET_PEAK,
};

struct budget {
	enum budget_subject subject;
	char *text;               /* "kind:pinned", as written */
	struct frame_pattern pattern; /* of what follows the colon; not of device and peak */
	int device;
	int in_blocks; /* `limit` is a number of blocks, not of bytes */
	uint64_t limit;
	unsigned int line;
};

struct budgets {
	char *name; /* its path */
	struct budget *rules;
	size_t count;
};

/* Both return 0 and *RET to be destroyed by the caller, or -errno with "NAME:LINE: what" in
 * ERROR. */
int budgets_parse(const char *text, size_t length, const char *name, struct budgets **ret,
		  char *error, size_t error_size);
int budgets_load(const char *path, struct budgets **ret, char *error, size_t error_size);

/* Returns true if RULE covers LEAK. A rule for peaks covers no leak. */
bool budget_covers(const struct budget *rule, const struct report_leak *leak);

void budgets_destroy(struct budgets *budgets); /* NULL is fine */

#endif
