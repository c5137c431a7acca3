/* SPDX-License-Identifier: MIT
 *
 * Compares the two lists of totals, which are ordered by fingerprint.
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

static uint64_t distance(const struct diff_row *row)
{
	return row->after.bytes > row->before.bytes ? row->after.bytes - row->before.bytes
						    : row->before.bytes - row->after.bytes;
}

static uint64_t distance_in_blocks(const struct diff_row *row)
{
	return row->after.blocks > row->before.blocks ? row->after.blocks - row->before.blocks
						      : row->before.blocks - row->after.blocks;
}

static uint64_t fingerprint_of(const struct diff_row *row)
{
	return row->after.largest ? row->after.fingerprint : row->before.fingerprint;
}

static int compare_rows(const void *left, const void *right)
{
	const struct diff_row *a = left, *b = right;

	if (a->change != b->change)
		return a->change < b->change ? -1 : 1;
	if (distance(a) != distance(b))
		return distance(a) > distance(b) ? -1 : 1;
	if (distance_in_blocks(a) != distance_in_blocks(b))
		return distance_in_blocks(a) > distance_in_blocks(b) ? -1 : 1;
	return fingerprint_of(a) < fingerprint_of(b) ? -1 : fingerprint_of(a) > fingerprint_of(b);
}

static void merge(struct diff_list *list)
{
	const struct leak_totals *before = &list->totals[0], *after = &list->totals[1];
	size_t b = 0, a = 0;

	while (b < before->count || a < after->count) {
		struct diff_row row = { .change = DIFF_SAME };
		int has_before = b < before->count &&
				 (a == after->count ||
				  before->entries[b].fingerprint <= after->entries[a].fingerprint);
		int has_after = a < after->count &&
				(b == before->count ||
				 after->entries[a].fingerprint <= before->entries[b].fingerprint);

		if (has_before)
			row.before = before->entries[b++];
		if (has_after)
			row.after = after->entries[a++];
		row.change = change_of(&row.before, &row.after);
		list->counts[row.change]++;
		list->rows[list->count++] = row;
	}
	SORT(list->rows, list->count, compare_rows);
}

static struct diff_list make_list(const struct report *before, const struct report *after,
				  unsigned int of)
{
	struct diff_list ret = { .totals = { leak_totals_make(before, of),
					     leak_totals_make(after, of) } };

	ret.rows = calloc(ret.totals[0].count + ret.totals[1].count + 1, sizeof(*ret.rows));
	merge(&ret);
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
		.accumulating = make_list(before, after, TOTALS_OF_ACCUMULATIONS),
		.objects = make_list(before, after, TOTALS_OF_OBJECTS),
		.peak = make_list(before, after, TOTALS_OF_PEAKS),
		.peak_before = largest_peak(before),
		.peak_after = largest_peak(after),
	};

	diff.worse = diff.leaks.counts[DIFF_NEW] || diff.leaks.counts[DIFF_GREW] ||
		     diff.accumulating.counts[DIFF_NEW] ||
		     after->summary.errors > before->summary.errors;
	return diff;
}

static void finish_list(struct diff_list *list)
{
	leak_totals_finish(&list->totals[0]);
	leak_totals_finish(&list->totals[1]);
	free(list->rows);
}

void diff_finish(struct diff *diff)
{
	finish_list(&diff->leaks);
	finish_list(&diff->accumulating);
	finish_list(&diff->objects);
	finish_list(&diff->peak);
	*diff = (struct diff){ 0 };
}
