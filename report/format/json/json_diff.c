/* SPDX-License-Identifier: MIT
 *
 * Writes a comparison as one object with every leak, all memory that ended with its context, and
 * every call site that accumulates, of either side.
 */
#include "report/subjects/formats.h"

#include "report/analyze/diff.h"
#include "report/describe/json_helpers.h"
#include "report/describe/json_values.h"

static json_t *amount_json(const struct leak_total *total)
{
	return JSON_OBJECT(
		{ "bytes", json_number(total->bytes) },
		{ "blocks", json_number(total->blocks) });
}

static json_t *change_json(const struct diff_row *row, const char *kind, const char *cache,
			   json_t *before, json_t *after)
{
	const struct report_site *site = diff_leak(row)->site;

	return JSON_OBJECT(
		{ "change", json_string(diff_word(row->change)) },
		{ "fingerprint", json_fingerprint(diff_leak(row)) },
		{ "api", json_text(site->api) },
		{ "kind", json_text(kind) },
		{ "cache", JSON_IF(cache, json_text(cache)) },
		{ "before", before },
		{ "after", after },
		{ "stack", json_stack(site->stack) });
}

static json_t *row_json(const void *item)
{
	const struct diff_row *row = item;

	return change_json(row, diff_leak(row)->site->kind, diff_leak(row)->cache,
			   amount_json(&row->before), amount_json(&row->after));
}

static json_t *object_json(const void *item)
{
	const struct diff_row *row = item;

	return change_json(row, json_object_word(diff_leak(row)->site->kind), NULL,
			   json_number(row->before.blocks), json_number(row->after.blocks));
}

static json_t *side_json(const struct report *report)
{
	return JSON_OBJECT(
		{ "bytes", json_number(report->summary.leaked_bytes) },
		{ "blocks", json_number(report->summary.leaked_blocks) },
		{ "errors", json_number(report->summary.errors) });
}

static json_t *counts_json(const struct diff_list *list)
{
	json_t *counts = json_object();

	for (enum diff_change i = 0; i < DIFF_CHANGES; i++)
		json_set(counts, diff_word(i), json_number(list->counts[i]));
	return counts;
}

static json_t *peak_json(const struct diff *diff)
{
	return JSON_OBJECT(
		{ "before_bytes", json_number(diff->peak_before) },
		{ "after_bytes", json_number(diff->peak_after) },
		{ "counts", counts_json(&diff->peak) },
		{ "holders", JSON_LIST(diff->peak.rows, diff->peak.count, row_json) });
}

int diff_print_json(const struct diff *diff, FILE *out)
{
	const struct diff_list *leaks = &diff->leaks, *accumulating = &diff->accumulating;
	const struct diff_list *ends = &diff->context_ends;
	bool has_peak = diff->peak_before && diff->peak_after;

	return json_write(JSON_OBJECT(
		{ "schema", json_string("gpuleak-diff/1") },
		{ "worse", json_boolean(diff->worse) },
		{ "counts", counts_json(leaks) },
		{ "ended_with_context_counts", JSON_IF(ends->count, counts_json(ends)) },
		{ "accumulating_counts", counts_json(accumulating) },
		{ "objects_counts", counts_json(&diff->objects) },
		{ "before", side_json(diff->before) },
		{ "after", side_json(diff->after) },
		{ "leaks", JSON_LIST(leaks->rows, leaks->count, row_json) },
		{ "ended_with_context", JSON_IF(ends->count,
						JSON_LIST(ends->rows, ends->count, row_json)) },
		{ "accumulating", JSON_LIST(accumulating->rows, accumulating->count,
					      row_json) },
		{ "objects", JSON_LIST(diff->objects.rows, diff->objects.count, object_json) },
		{ "peak", JSON_IF(has_peak, peak_json(diff)) }), out);
}
