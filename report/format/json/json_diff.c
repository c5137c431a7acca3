/* SPDX-License-Identifier: MIT
 *
 * Writes a comparison as one object with every leak of either side.
 */
#include "report/format/json/json_diff.h"

#include "report/analyze/diff.h"
#include "report/format/json/json_helpers.h"
#include "report/model/model.h"
#include "report/symbols/fingerprint.h"

static json_t *amount_json(uint64_t bytes, uint64_t blocks)
{
	json_t *ret = json_object();

	json_set(&ret, "bytes", json_number(bytes));
	json_set(&ret, "blocks", json_number(blocks));
	return ret;
}

static json_t *row_json(const struct diff_row *row)
{
	const struct report_leak *leak = row->after.largest ? row->after.largest
							    : row->before.largest;
	char hash[FINGERPRINT_TEXT];
	json_t *ret = json_object();

	report_fingerprint_text(report_leak_fingerprint(leak), hash);
	json_set(&ret, "change", json_string(diff_word(row->change)));
	json_set(&ret, "fingerprint", json_string(hash));
	json_set(&ret, "api", json_text(leak->api));
	json_set(&ret, "kind", json_text(leak->kind));
	json_set(&ret, "before", amount_json(row->before.bytes, row->before.blocks));
	json_set(&ret, "after", amount_json(row->after.bytes, row->after.blocks));
	json_set(&ret, "stack", json_stack(leak->stack));
	return ret;
}

static json_t *total_json(const struct report *report)
{
	json_t *ret = amount_json(report->summary.leaked_bytes, report->summary.leaked_blocks);

	json_set(&ret, "errors", json_number(report->summary.errors));
	return ret;
}

int diff_print_json(const struct diff *diff, FILE *out)
{
	json_t *root = json_object(), *counts = json_object(), *rows = json_array();

	for (enum diff_change i = 0; i < DIFF_CHANGES; i++)
		json_set(&counts, diff_word(i), json_number(diff->counts[i]));
	for (size_t i = 0; i < diff->count && rows; i++)
		json_append(&rows, row_json(&diff->rows[i]));
	json_set(&root, "schema", json_string("gpuleak-diff/1"));
	json_set(&root, "worse", json_boolean(diff->worse));
	json_set(&root, "counts", counts);
	json_set(&root, "before", total_json(diff->before));
	json_set(&root, "after", total_json(diff->after));
	json_set(&root, "leaks", rows);
	return json_write(root, out);
}
