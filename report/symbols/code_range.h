/* SPDX-License-Identifier: MIT
 *
 * Finds ranges of addresses in a list, ordered by `low`. Ranges may overlap. The items of a list
 * have a struct code_range as their first member.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "report/util/number.h"

struct code_range {
	uint64_t low, high;
	uint64_t reach; /* largest `high` of this range and all before it */
};

/* For SORT(): orders ranges by start, then the larger range first, so that nested ranges follow. */
static inline int code_ranges_compare(const void *left, const void *right)
{
	const struct code_range *a = left, *b = right;

	return compare_numbers(a->low, b->low) ?: compare_numbers(b->high, a->high);
}

/* Sets `reach` in the COUNT items of SIZE bytes. */
static inline void code_ranges_set_reach(void *items, size_t count, size_t size)
{
	uint64_t reach = 0;

	for (char *at = items; count--; at += size) {
		struct code_range *range = (struct code_range *)at;

		range->reach = reach = range->high > reach ? range->high : reach;
	}
}

/* Returns the number of items that begin at ADDRESS or before it. The last ones of these are the
 * innermost. None before the first one with a `reach` of ADDRESS or less contains it. */
static inline size_t code_ranges_until(const void *items, size_t count, size_t size,
				       uint64_t address)
{
	size_t low = 0;

	while (low < count) {
		size_t middle = low + (count - low) / 2;
		const void *range = (const char *)items + middle * size;

		if (((const struct code_range *)range)->low <= address)
			low = middle + 1;
		else
			count = middle;
	}
	return low;
}
