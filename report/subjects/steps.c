/* SPDX-License-Identifier: MIT
 *
 * Named steps: one line for each name. The name is the last column, because it may have any width.
 */
#include "report/subjects/subject.h"

#include "report/describe/json_helpers.h"
#include "report/model/model.h"
#include "report/model/model_named_steps.h"
#include "report/util/escape.h"
#include "report/util/number.h"

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
		fputc('"', out);
		print_escaped(out, step->name);
		fputc('"', out);
	} else
		fputs("all further names (only 100 names are kept apart)", out);
	fputs(step->open ? ", not ended\n" : "\n", out);
}

static void print_finding(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	if (!process->named_step_count)
		return;
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

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	json_set(object, "steps", JSON_LIST_IF_ANY(process->named_steps, process->named_step_count,
						   named_step_json));
}

const struct subject subject_steps = { .finding = print_finding, .json = add_json };
