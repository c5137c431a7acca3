/* SPDX-License-Identifier: MIT
 *
 * The growth rule. Depends on numbers, not on ledgers.
 */
#include "report/model/growth_rule.h"
#include "report/util/memory.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *left, const void *right)
{
	return compare_numbers(*(const uint64_t *)left, *(const uint64_t *)right);
}

/* Returns the median. If COUNT is even, returns the lower of the two middle values: the average of
 * two values would be too high if one of them is unusually large. */
static uint64_t median(const uint64_t *values, size_t count)
{
	uint64_t sorted[GROWTH_STEPS_MAX];

	memcpy(sorted, values, count * sizeof(*values));
	SORT(sorted, count, compare);
	return sorted[(count - 1) / 2];
}

static bool shrinks(const uint64_t *values, size_t intervals)
{
	for (size_t i = 0; i < intervals; i++)
		if (values[i + 1] < values[i])
			return true;
	return false;
}

/* Applies the rule to every STRIDEth step, counted from the last. The value must not be lower at a
 * step between two of them. */
static struct growth_verdict judge_every(const struct growth_series *series, size_t stride)
{
	struct growth_verdict none = { 0 }, ret = { 0 };
	uint64_t grown[GROWTH_STEPS_MAX]; /* the last interval first */
	uint64_t later, earlier;
	size_t at = series->count;

	for (at--; at >= stride; at -= stride) {
		if (series->values[at] <= series->values[at - stride] ||
		    shrinks(series->values + at - stride, stride))
			break;
		grown[ret.intervals++] = series->values[at] - series->values[at - stride];
	}
	if (ret.intervals + 1 < GROWTH_STEPS_MIN)
		return none;
	later = median(grown, ret.intervals / 2);
	earlier = median(grown + ret.intervals - ret.intervals / 2, ret.intervals / 2);
	if (later < earlier - earlier / 2)
		return none; /* the growth fades */
	ret.per_step = median(grown, ret.intervals) / stride;
	ret.intervals *= (unsigned int)stride;
	return ret;
}

struct growth_verdict growth_judge(const struct growth_series *series)
{
	struct growth_verdict ret = { 0 };

	if (series->count == 0 || series->count > GROWTH_STEPS_MAX)
		return ret;
	ret = judge_every(series, 1);
	/* If a timer marks the steps, an allocation of one step may be counted in the next. So the
	 * rule is also applied to every second step. */
	return ret.intervals ? ret : judge_every(series, 2);
}
