/* SPDX-License-Identifier: MIT
 *
 * The rule for what keeps growing. Knows numbers, no ledgers.
 */
#include "growth.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

/* The lower one of two in the middle: one leap is not a habit. */
static uint64_t median(const uint64_t *values, size_t count)
{
	uint64_t sorted[GROWTH_STEPS_MAX];

	memcpy(sorted, values, count * sizeof(*values));
	qsort(sorted, count, sizeof(*sorted), compare);
	return sorted[(count - 1) / 2];
}

struct growth_verdict growth_judge(const struct growth_series *series)
{
	struct growth_verdict none = { 0 }, ret = { 0 };
	uint64_t grown[GROWTH_STEPS_MAX]; /* the last interval first */
	size_t count = series->count < GROWTH_STEPS_MAX ? series->count : GROWTH_STEPS_MAX;
	uint64_t later, earlier;

	for (size_t i = count; i > 1; i--) {
		if (series->values[i - 1] <= series->values[i - 2])
			break;
		grown[ret.intervals++] = series->values[i - 1] - series->values[i - 2];
	}
	if (ret.intervals + 1 < GROWTH_STEPS_MIN)
		return none;
	later = median(grown, ret.intervals / 2);
	earlier = median(grown + ret.intervals - ret.intervals / 2, ret.intervals / 2);
	if (later < earlier - earlier / 2)
		return none; /* on its way to a bound */
	ret.per_step = median(grown, ret.intervals);
	return ret;
}
