/* SPDX-License-Identifier: MIT
 *
 * Prints a comparison: new leaks and growth first, with their stacks, then what ended with its
 * context, what accumulates, and objects.
 */
#include "report/subjects/formats.h"

#include <inttypes.h>

#include "report/analyze/diff.h"
#include "report/describe/kinds.h"
#include "report/symbols/fingerprint.h"

/* maximum number of call sites whose part of the peak changed; JSON has all */
#define HOLDERS_SHOWN 10

static void print_counts(FILE *out, const struct diff_list *list)
{
	for (enum diff_change i = 0; i < DIFF_CHANGES; i++)
		fprintf(out, "%s%zu %s", i ? ", " : "", list->counts[i], diff_word(i));
}

static void print_totals(FILE *out, const struct diff *diff)
{
	const struct report_summary *before = &diff->before->summary;
	const struct report_summary *after = &diff->after->summary;

	fputs("gpuleak diff: ", out);
	print_counts(out, &diff->leaks);
	fprintf(out, "; leaked: %s in %s, before: %s in %s", EXACT_SIZE(after->leaked_bytes),
		COUNT(after->leaked_blocks, "block"), EXACT_SIZE(before->leaked_bytes),
		COUNT(before->leaked_blocks, "block"));
	if (before->errors || after->errors)
		fprintf(out, "; invalid frees: %" PRIu64 ", before: %" PRIu64, after->errors,
			before->errors);
	if (diff->context_ends.count) {
		fputs("; ended with their context: ", out);
		print_counts(out, &diff->context_ends);
	}
	if (diff->accumulating.count) {
		fputs("; accumulating: ", out);
		print_counts(out, &diff->accumulating);
	}
	if (diff->objects.count) {
		fputs("; objects: ", out);
		print_counts(out, &diff->objects);
	}
	if (diff->peak_before && diff->peak_after) {
		fprintf(out, "; peak: %s, before: %s", EXACT_SIZE(diff->peak_after),
			EXACT_SIZE(diff->peak_before));
	}
	fputc('\n', out);
}

static void print_amount(FILE *out, const struct leak_total *total, const char *unit)
{
	fprintf(out, "%s in %s", EXACT_SIZE(total->bytes), COUNT(total->blocks, unit));
}

/* Prints the amounts of ROW, counted in UNIT. */
static void print_amounts(FILE *out, const struct diff_row *row, const char *unit)
{
	print_amount(out, row->change == DIFF_GONE ? &row->before : &row->after, unit);
	if (row->change != DIFF_GREW && row->change != DIFF_SHRANK)
		return;
	fputs(", before: ", out);
	print_amount(out, &row->before, unit);
}

/* Prints ", fingerprint 0123456789abcdef, at PLACE", and the stack if there is something to do. */
static void print_place(FILE *out, const struct diff_row *row, const struct report_leak *leak)
{
	fprintf(out, ", fingerprint %s, at ",
		FINGERPRINT(report_site_fingerprint(leak->site), leak->site->stack->partial));
	describe_place_and_caller(out, leak->site->stack, false);
	fputc('\n', out);
	if (row->change == DIFF_NEW || row->change == DIFF_GREW)
		describe_stack(out, leak->site->stack, false);
}

static void print_lost(FILE *out, const char *how, const struct diff_row *row)
{
	const struct report_leak *leak = diff_leak(row);

	fprintf(out, "\n%s%s: ", how, diff_word(row->change));
	print_amounts(out, row, "block");
	describe_source(out, leak->site->kind, leak->site->api, -1);
	print_place(out, row, leak);
}

static void print_leak(FILE *out, const struct diff_row *row)
{
	print_lost(out, "", row);
}

static void print_context_end(FILE *out, const struct diff_row *row)
{
	print_lost(out, "ended with its context, ", row);
}

static void print_accumulating(FILE *out, const struct diff_row *row)
{
	const struct report_leak *live = diff_leak(row);

	fprintf(out, "\naccumulating, %s: ", diff_word(row->change));
	print_amounts(out, row, suballocation_word(live->cache));
	fputs(" (", out);
	describe_pool(out, live, -1);
	fputc(')', out);
	print_place(out, row, live);
}

/* Returns true if the change of ROW is more than a small part of the larger peak. */
static bool is_notable(const struct diff *diff, const struct diff_row *row)
{
	uint64_t peak = diff->peak_before > diff->peak_after ? diff->peak_before : diff->peak_after;
	uint64_t before = row->before.bytes, after = row->after.bytes;

	return (after > before ? after - before : before - after) > peak / 64;
}

static void print_holder(FILE *out, const struct diff_row *row)
{
	const struct report_leak *holder = diff_leak(row);
	const char *unit = describe_unit(holder);

	fputs("\npeak: ", out);
	print_amount(out, &row->after, unit);
	fputs(", before: ", out);
	print_amount(out, &row->before, unit);
	describe_source(out, holder->site->kind, holder->site->api, -1);
	fputs(", at ", out);
	describe_place_and_caller(out, holder->site->stack, false);
	fputc('\n', out);
}

static void print_peak(FILE *out, const struct diff *diff)
{
	size_t printed = 0;

	if (!diff->peak_before || !diff->peak_after)
		return; /* an older report, or a side without memory */
	for (size_t i = 0; i < diff->peak.count && printed < HOLDERS_SHOWN; i++)
		if (is_notable(diff, &diff->peak.rows[i])) {
			print_holder(out, &diff->peak.rows[i]);
			printed++;
		}
}

static void print_object(FILE *out, const struct diff_row *row)
{
	const struct report_leak *object = diff_leak(row);
	uint64_t count = row->change == DIFF_GONE ? row->before.blocks : row->after.blocks;

	fputc('\n', out);
	eprintf(out, "objects, %s: %s", diff_word(row->change), OBJECTS(count, object->site->kind));
	if (row->change == DIFF_GREW || row->change == DIFF_SHRANK)
		fprintf(out, ", before: %" PRIu64, row->before.blocks);
	eprintf(out, " (%s)", object->site->api);
	print_place(out, row, object);
}

static void print_changes(FILE *out, const struct diff_list *list,
			  void (*print)(FILE *out, const struct diff_row *row))
{
	for (size_t i = 0; i < list->count; i++)
		if (list->rows[i].change != DIFF_SAME)
			print(out, &list->rows[i]);
}

int diff_print_text(const struct diff *diff, FILE *out)
{
	print_totals(out, diff);
	print_changes(out, &diff->leaks, print_leak);
	print_changes(out, &diff->context_ends, print_context_end);
	print_changes(out, &diff->accumulating, print_accumulating);
	print_changes(out, &diff->objects, print_object);
	print_peak(out, diff);
	return ferror(out) ? -EIO : 0;
}
