/* SPDX-License-Identifier: MIT
 *
 * Walks lists, and compares values for SORT() in report/util/memory.h. Join comparisons by ?: from
 * the first key to the last.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Runs the statement that follows for each of the COUNT items of the array ITEMS. Declares NAME,
 * which points to the item. ITEMS may be NULL if COUNT is 0. */
#define EACH_ITEM(items, count, name)                                                       \
	for (const __typeof__(*(items)) *name = (items),                                    \
	     *name##_end = (count) ? name + (count) : name; name != name##_end; name++)

/* These functions return a number below, equal to or above 0. A text that is NULL is as "". */
static inline int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static inline int compare_ints(int a, int b)
{
	return (a > b) - (a < b);
}

static inline int compare_texts(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

/* Returns true if A equals B. NULL equals only NULL. */
static inline bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}
