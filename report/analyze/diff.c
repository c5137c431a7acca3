/* SPDX-License-Identifier: MIT
 *
 * Compares two lists of totals, which are ordered by fingerprint.
 */
#include "report/analyze/diff.h"

#include <stdlib.h>

#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/util/memory.h"

const char *diff_word(enum diff_change change)
{
	static const char *const words[DIFF_CHANGES] = {
		[DIFF_NEW] = "new",   [DIFF_GREW] = "grew",      [DIFF_SHRANK] = "shrank",
		[DIFF_GONE] = "gone", [DIFF_SAME] = "unchanged",
	};

	return words[change];
}

static enum diff_change change_of(const struct leak_total *before, const struct leak_total *after)
{
	if (!before->largest)
		return DIFF_NEW;
	if (!after->largest)
		return DIFF_GONE;
	if (after->bytes > before->bytes || after->blocks > before->blocks)
		return DIFF_GREW;
	return after->bytes < before->bytes || after->blocks < before->blocks ? DIFF_SHRANK
									       : DIFF_SAME;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static uint64_t fingerprint_of(const struct diff_row *row)
{
	return row->after.largest ? row->after.fingerprint : row->before.fingerprint;
}

static int compare_rows(const void *left, const void *right)
{
	const struct diff_row *a = left, *b = right;

	return compare_numbers(a->change, b->change)
	       ?: compare_numbers(distance(b->after.bytes, b->before.bytes),
				  distance(a->after.bytes, a->before.bytes))
	       ?: compare_numbers(distance(b->after.blocks, b->before.blocks),
				  distance(a->after.blocks, a->before.blocks))
	       ?: compare_numbers(fingerprint_of(a), fingerprint_of(b));
}

static struct diff_list make_list(const struct report *before, const struct report *after,
				  unsigned int of)
{
	struct leak_totals old = leak_totals_make(before, of), new = leak_totals_make(after, of);
	struct diff_list ret = { .rows = calloc(old.count + new.count + 1, sizeof(*ret.rows)) };
	size_t o = 0, n = 0;

	while (o < old.count || n < new.count) {
		int order = o == old.count   ? 1
			    : n == new.count ? -1
					     : compare_numbers(old.entries[o].fingerprint,
							       new.entries[n].fingerprint);
		struct diff_row *row = &ret.rows[ret.count++];

		if (order <= 0)
			row->before = old.entries[o++];
		if (order >= 0)
			row->after = new.entries[n++];
		row->change = change_of(&row->before, &row->after);
		ret.counts[row->change]++;
	}
	leak_totals_finish(&old);
	leak_totals_finish(&new);
	SORT(ret.rows, ret.count, compare_rows);
	return ret;
}

static uint64_t largest_peak(const struct report *report)
{
	uint64_t largest = 0;

	for (size_t i = 0; i < report->count; i++)
		for (size_t j = 0; j < report->processes[i]->peak_count; j++)
			if (report->processes[i]->peaks[j].bytes > largest)
				largest = report->processes[i]->peaks[j].bytes;
	return largest;
}

struct diff diff_make(const struct report *before, const struct report *after)
{
	struct diff diff = {
		.before = before,
		.after = after,
		.leaks = make_list(before, after, TOTALS_OF_LEAKS),
		.context_ends = make_list(before, after, TOTALS_OF_CONTEXT_ENDS),
		.accumulating = make_list(before, after, TOTALS_OF_ACCUMULATIONS),
		.objects = make_list(before, after, TOTALS_OF_OBJECTS),
		.peak = make_list(before, after, TOTALS_OF_PEAKS),
		.peak_before = largest_peak(before),
		.peak_after = largest_peak(after),
	};

	diff.worse = diff.leaks.counts[DIFF_NEW] || diff.leaks.counts[DIFF_GREW] ||
		     diff.context_ends.counts[DIFF_NEW] || diff.context_ends.counts[DIFF_GREW] ||
		     diff.accumulating.counts[DIFF_NEW] ||
		     after->summary.errors > before->summary.errors;
	return diff;
}

void diff_finish(struct diff *diff)
{
	free(diff->leaks.rows);
	free(diff->context_ends.rows);
	free(diff->accumulating.rows);
	free(diff->objects.rows);
	free(diff->peak.rows);
	*diff = (struct diff){ 0 };
}
