/* SPDX-License-Identifier: MIT
 *
 * Named steps, in the order in which the names first appeared. The part of the open step is
 * computed here, so a process that was killed has it, too. The text has one line for each name, in
 * the last column, because it may have any width.
 */
#include "report/subjects/common.h"

#include "ledger/totals.h"
#include "report/model/growth_rule.h"

#define RECORDS_MAX (LEDGER_STEP_NAMES + 1)

/* Returns the next record that is complete and has steps, or NULL. */
static const struct ledger_named_step *next_record(const struct builder *b,
						   struct ledger_walk *walk)
{
	const struct ledger_named_step *record;

	do
		record = ledger_next_named_step(b->view, walk);
	while (record && (record->done != record->began || !record->count));
	return record;
}

static struct report_named_step read_record(struct builder *b,
					    const struct ledger_named_step *record,
					    const struct ledger_totals *now)
{
	size_t length = strnlen(record->name, sizeof(record->name));
	struct report_named_step ret = {
		.name = length ? arena_text(b->arena, record->name, length) : NULL,
		.count = record->count,
		.open = record->flags & LEDGER_STEP_OPEN,
		.totals = record->sum,
		.peak_bytes = record->peak_bytes,
	};

	if (ret.open)
		ledger_totals_add(&ret.totals, &record->start, now);
	return ret;
}

static void build(struct builder *b)
{
	struct report_process *process = b->process;
	const struct ledger_named_step *record;
	struct ledger_walk walk = { 0 };
	struct ledger_totals now;

	ledger_totals(b->view, &now);
	while (process->named_step_count < RECORDS_MAX && (record = next_record(b, &walk)))
		*ARENA_ADD(b->arena, process->named_steps, process->named_step_count) =
			read_record(b, record, &now);
}

/* ---- text and JSON ---- */

#define STEPS_MAX 20

static char *format_left(int64_t bytes, char ret[NUMBER_MAX + 1])
{
	ret[0] = '-';
	if (bytes >= 0)
		return format_size((uint64_t)bytes, ret);
	format_size(0 - (uint64_t)bytes, ret + 1);
	return ret;
}

static void print_step(FILE *out, const struct report_named_step *step)
{
	char text[5][NUMBER_MAX + 1];

	fprintf(out, "  %10s  %12s  %12s  %12s  %12s  ", format_number(step->count, text[0]),
		format_size(step->totals.allocated_bytes, text[1]),
		format_size(step->totals.freed_bytes, text[2]),
		format_left(named_step_left_bytes(step), text[3]),
		format_size(step->peak_bytes, text[4]));
	if (step->name) {
		eprintf(out, "\"%s\"", step->name);
	} else
		fputs("all further names (only 100 names are kept apart)", out);
	fputs(step->open ? ", not ended\n" : "\n", out);
}

static void print_finding(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	fputs(view->is_wrong ? "\n" : "", out);
	fprintf(out, "gpuleak: named steps:\n  %10s  %12s  %12s  %12s  %12s  %s\n", "times",
		"allocated", "freed", "left", "largest peak", "step");
	for (size_t i = 0; i < process->named_step_count && i < STEPS_MAX; i++)
		print_step(out, &process->named_steps[i]);
	if (process->named_step_count > STEPS_MAX)
		fprintf(out, "  and %s more; --format json lists all\n",
			NUMBER(process->named_step_count - STEPS_MAX));
}

static json_t *named_step_json(const void *item)
{
	const struct report_named_step *step = item;
	const struct ledger_totals *totals = &step->totals;

	return JSON_OBJECT(
		{ "name", json_text(step->name) },
		{ "count", json_number(step->count) },
		{ "open", json_boolean(step->open) },
		{ "allocated_bytes", json_number(totals->allocated_bytes) },
		{ "allocated_blocks", json_number(totals->allocated_blocks) },
		{ "freed_bytes", json_number(totals->freed_bytes) },
		{ "freed_blocks", json_number(totals->freed_blocks) },
		{ "left_bytes", json_integer(named_step_left_bytes(step)) },
		{ "left_blocks", json_integer(named_step_left_blocks(step)) },
		{ "peak_bytes", json_number(step->peak_bytes) });
}

const struct subject subject_steps = {
	.build = build, .chunks = CHUNK_BIT(NAMED_STEPS), .only_if = PART(named_step_count),
	.finding = print_finding,
	LIST("steps", named_steps, named_step_count, .of = named_step_json),
};
