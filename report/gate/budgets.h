/* SPDX-License-Identifier: MIT
 *
 * The file of budgets, which limit leaks and other memory. One rule per line, with blanks before
 * the limit:
 *
 *     kind:pinned 64MiB
 *     device:0 1GiB
 *     api:cuMemHostAlloc 3 blocks
 *     site:PATTERN 4MiB          leaks whose stack has a matching frame
 *     cache:PATTERN 2GiB         memory at exit in a framework's cache with a matching name
 *     accumulation:PATTERN 1MiB  suballocations that accumulate, whose stack has a matching frame
 *     object:stream 8            objects at exit that are not memory
 *     peak 8GiB                  the largest peak of one process
 *
 * Reads and matches rules. judge_budgets.c decides the gate.
 */
#ifndef GPULEAK_REPORT_BUDGETS_H
#define GPULEAK_REPORT_BUDGETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/suppress/frame_pattern.h"

struct report_leak;
struct report_stack;

#define BUDGETS_MAX 4096

enum budget_subject {
	BUDGET_KIND,
	BUDGET_API,
	BUDGET_DEVICE,
	BUDGET_SITE,
	BUDGET_CACHE,
	BUDGET_ACCUMULATION,
	BUDGET_OBJECT,
	BUDGET_PEAK,
};

struct budget {
	enum budget_subject subject;
	char *text;               /* "kind:pinned", as in the file */
	struct frame_pattern pattern; /* the text after the colon; unused for device and peak */
	int device;
	bool in_blocks; /* `limit` is a number of blocks or objects, not of bytes */
	bool is_plain;  /* the limit was a number without a unit */
	uint64_t limit;
	unsigned int line;
};

struct budgets {
	char *name; /* path of the file */
	struct budget *rules;
	size_t count;
};

/* Read budgets from TEXT or from the file at PATH. Return 0, or -errno with "NAME:LINE: ..." in
 * ERROR. The caller destroys *RET. */
int budgets_parse(const char *text, size_t length, const char *name, struct budgets **ret,
		  char *error, size_t error_size);
int budgets_load(const char *path, struct budgets **ret, char *error, size_t error_size);

/* Returns true if RULE covers LEAK, which may be a group of objects. A rule for peaks or
 * accumulation covers no leak. */
bool budget_covers(const struct budget *rule, const struct report_leak *leak);
/* Returns true if RULE covers suballocations that accumulate at STACK. */
bool budget_covers_accumulation(const struct budget *rule, const struct report_stack *stack);

void budgets_destroy(struct budgets *budgets); /* BUDGETS may be NULL */

#endif
