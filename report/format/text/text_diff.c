/* SPDX-License-Identifier: MIT
 *
 * A comparison as text: what got worse first, with stacks for what is new or grew; and as
 * JSON: one object, every leak of either side.
 */
#include <errno.h>
#include <inttypes.h>

#include "report/analyze/diff.h"
#include "report/util/escape.h"
#include "report/symbols/fingerprint.h"
#include "report/format/json/json_helpers.h"
#include "report/model/model.h"
#include "report/util/number.h"
#include "report/describe/describe_stack.h"

static const char *const words[DIFF_CHANGES] = {
	[DIFF_NEW] = "new", [DIFF_GREW] = "grew", [DIFF_SHRANK] = "shrank", [DIFF_GONE] = "gone",
	[DIFF_SAME] = "unchanged",
};

static void print_amount(FILE *out, uint64_t bytes, uint64_t blocks)
{
	char number[NUMBER_MAX];

	text_bytes(out, bytes);
	fprintf(out, " in %s block%s", format_number(blocks, number), blocks == 1 ? "" : "s");
}

static void print_totals(FILE *out, const struct diff *diff)
{
	const struct report_summary *before = &diff->before->summary;
	const struct report_summary *after = &diff->after->summary;

	fputs("gpuleak diff: ", out);
	for (int i = 0; i < DIFF_CHANGES; i++)
		fprintf(out, "%s%zu %s", i ? ", " : "", diff->counts[i], words[i]);
	fputs("; leaked: ", out);
	print_amount(out, after->leaked_bytes, after->leaked_blocks);
	fputs(", before: ", out);
	print_amount(out, before->leaked_bytes, before->leaked_blocks);
	if (before->errors || after->errors)
		fprintf(out, "; wrong frees: %" PRIu64 ", before: %" PRIu64, after->errors,
			before->errors);
	fputc('\n', out);
}

static void print_row(FILE *out, const struct diff_row *row)
{
	const struct report_leak *leak = row->after.largest ? row->after.largest
							    : row->before.largest;
	char hash[FINGERPRINT_TEXT];

	fprintf(out, "\n%s: ", words[row->change]);
	if (row->change == DIFF_GONE)
		print_amount(out, row->before.bytes, row->before.blocks);
	else
		print_amount(out, row->after.bytes, row->after.blocks);
	if (row->change == DIFF_GREW || row->change == DIFF_SHRANK) {
		fputs(", before: ", out);
		print_amount(out, row->before.bytes, row->before.blocks);
	}
	fputs(" (", out);
	text_kind(out, leak->kind);
	fputs(", ", out);
	print_escaped(out, leak->api);
	fprintf(out, "), fingerprint %s, at ",
		report_fingerprint_text(report_leak_fingerprint(leak), hash));
	text_place_and_caller(out, leak->stack);
	fputc('\n', out);
	if (row->change == DIFF_NEW || row->change == DIFF_GREW)
		text_stack(out, leak->stack);
}

int diff_print_text(const struct diff *diff, FILE *out)
{
	print_totals(out, diff);
	for (size_t i = 0; i < diff->count; i++)
		if (diff->rows[i].change != DIFF_SAME)
			print_row(out, &diff->rows[i]);
	return ferror(out) ? -EIO : 0;
}

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
	json_set(&ret, "change", json_string(words[row->change]));
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

	for (int i = 0; i < DIFF_CHANGES; i++)
		json_set(&counts, words[i], json_number(diff->counts[i]));
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
