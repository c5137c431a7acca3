/* SPDX-License-Identifier: MIT
 *
 * Prints a comparison: new leaks and growth first, with their stacks.
 */
#include "report/format/text/text_diff.h"

#include <errno.h>
#include <inttypes.h>

#include "report/analyze/diff.h"
#include "report/symbols/fingerprint.h"
#include "report/model/model.h"
#include "report/describe/describe_stack.h"

static void print_totals(FILE *out, const struct diff *diff)
{
	const struct report_summary *before = &diff->before->summary;
	const struct report_summary *after = &diff->after->summary;

	fputs("gpuleak diff: ", out);
	for (enum diff_change i = 0; i < DIFF_CHANGES; i++)
		fprintf(out, "%s%zu %s", i ? ", " : "", diff->counts[i], diff_word(i));
	fputs("; leaked: ", out);
	describe_amount(out, after->leaked_bytes, after->leaked_blocks);
	fputs(", before: ", out);
	describe_amount(out, before->leaked_bytes, before->leaked_blocks);
	if (before->errors || after->errors)
		fprintf(out, "; invalid frees: %" PRIu64 ", before: %" PRIu64, after->errors,
			before->errors);
	fputc('\n', out);
}

static void print_row(FILE *out, const struct diff_row *row)
{
	const struct report_leak *leak = row->after.largest ? row->after.largest
							    : row->before.largest;
	char hash[FINGERPRINT_TEXT];

	fprintf(out, "\n%s: ", diff_word(row->change));
	if (row->change == DIFF_GONE)
		describe_amount(out, row->before.bytes, row->before.blocks);
	else
		describe_amount(out, row->after.bytes, row->after.blocks);
	if (row->change == DIFF_GREW || row->change == DIFF_SHRANK) {
		fputs(", before: ", out);
		describe_amount(out, row->before.bytes, row->before.blocks);
	}
	describe_source(out, leak->kind, leak->api, -1);
	fprintf(out, ", fingerprint %s, at ",
		report_fingerprint_text(report_leak_fingerprint(leak), hash));
	describe_place_and_caller(out, leak->stack);
	fputc('\n', out);
	if (row->change == DIFF_NEW || row->change == DIFF_GREW)
		describe_stack(out, leak->stack);
}

int diff_print_text(const struct diff *diff, FILE *out)
{
	print_totals(out, diff);
	for (size_t i = 0; i < diff->count; i++)
		if (diff->rows[i].change != DIFF_SAME)
			print_row(out, &diff->rows[i]);
	return ferror(out) ? -EIO : 0;
}
