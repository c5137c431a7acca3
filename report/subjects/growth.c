/* SPDX-License-Identifier: MIT
 *
 * Memory that keeps growing from step to step: the suspects, largest growth first, or one line
 * that nothing grows.
 */
#include "report/subjects/subject.h"

#include <inttypes.h>

#include "report/describe/describe_stack.h"
#include "report/describe/format_place.h"
#include "report/describe/json_helpers.h"
#include "report/describe/kinds.h"
#include "report/model/growth_rule.h"
#include "report/model/model.h"
#include "report/describe/json_values.h"
#include "report/subjects/judgement.h"
#include "report/subjects/subject_words.h"
#include "report/util/escape.h"
#include "report/util/number.h"

#define SUSPECTS_MAX 20

void describe_growth_rate(FILE *out, const struct report_suspect *suspect)
{
	char objects[FORMAT_OBJECTS_MAX];

	if (kind_is_object(suspect->site->kind)) {
		format_objects(suspect->blocks_per_step, suspect->site->kind, objects);
		fprintf(out, "%s per step", objects);
	} else if (suspect->bytes_per_step)
		fprintf(out, "%s per step", SIZE(suspect->bytes_per_step));
	else
		fprintf(out, "%s block%s of no bytes per step", NUMBER(suspect->blocks_per_step),
			plural(suspect->blocks_per_step));
	if (suspect->bytes_per_hour)
		fprintf(out, " (%s per hour)", SIZE(suspect->bytes_per_hour));
}

static void print_suspect(FILE *out, const struct report_suspect *suspect, bool whole)
{
	char objects[FORMAT_OBJECTS_MAX];
	bool is_object = kind_is_object(suspect->site->kind);

	fputs("gpuleak: suspect: ", out);
	describe_growth_rate(out, suspect);
	fputs(" at ", out);
	describe_place_and_caller(out, suspect->site->stack, whole);
	fputs(", ", out);
	print_escaped(out, suspect->site->api);
	fputs(" (", out);
	describe_kind(out, suspect->site->kind);
	if (suspect->site->device >= 0)
		fprintf(out, ", device %d", suspect->site->device);
	fprintf(out, "): grew over the last %u steps, to ", suspect->intervals);
	format_objects(suspect->blocks, suspect->site->kind, objects);
	if (is_object)
		fprintf(out, "%s\n", objects);
	else
		fprintf(out, "%s in %s block%s\n", SIZE(suspect->bytes),
			NUMBER(suspect->blocks), plural(suspect->blocks));
}

static void print_steps(FILE *out, const struct report_growth *growth)
{
	const struct report_step *last = &growth->steps[growth->stored_count - 1];

	fprintf(out, "gpuleak: %" PRIu64 " step%s marked", growth->step_count,
		plural(growth->step_count));
	if (growth->stored_count && last->label) {
		fputs(", the last one \"", out);
		print_escaped(out, last->label);
		fputc('"', out);
	}
}

static void print_finding(FILE *out, const struct subject_view *view)
{
	const struct report_growth *growth = view->process->growth;

	if (!growth)
		return;
	for (size_t i = 0; i < growth->suspect_count && i < SUSPECTS_MAX; i++)
		print_suspect(out, &growth->suspects[i], view->verbose);
	if (growth->suspect_count > SUSPECTS_MAX)
		fprintf(out, "gpuleak: and %zu smaller suspects\n",
			growth->suspect_count - SUSPECTS_MAX);
	print_steps(out, growth);
	if (growth->step_count < GROWTH_STEPS_MIN)
		fprintf(out, ": growth is reported from %u steps on\n", GROWTH_STEPS_MIN);
	else if (growth->suspect_count == 0 && !growth->suppressed)
		fputs(", nothing keeps growing\n", out);
	else
		fputc('\n', out);
	if (growth->suppressed)
		fprintf(out, "gpuleak: %" PRIu64 " more suspect%s suppressed\n", growth->suppressed,
			growth->suppressed == 1 ? " is" : "s are");
	if (growth->lost)
		fputs("note: the ledger had no room for the growth of some call sites, so these "
		      "may grow, too\n", out);
}

static json_t *step_json(const void *item)
{
	const struct report_step *step = item;

	return JSON_OBJECT(
		{ "number", json_integer(step->number) },
		{ "label", json_text(step->label) },
		{ "time_ns", json_number(step->time_ns) },
		{ "live_bytes", json_number(step->live_bytes) },
		{ "live_blocks", json_number(step->live_blocks) });
}

static json_t *number_json(const void *number)
{
	return json_number(*(const uint64_t *)number);
}

static json_t *suspect_json(const void *item)
{
	const struct report_suspect *suspect = item;

	return JSON_OBJECT(
		JSON_SITE(suspect->site),
		{ "bytes", json_number(suspect->bytes) },
		{ "blocks", json_number(suspect->blocks) },
		{ "bytes_per_step", json_number(suspect->bytes_per_step) },
		{ "blocks_per_step", json_number(suspect->blocks_per_step) },
		{ "bytes_per_hour", json_number(suspect->bytes_per_hour) },
		{ "grew_in_steps", json_integer(suspect->intervals) },
		{ "bytes_at_steps", JSON_LIST(suspect->series.values, suspect->series.count,
					      number_json) },
		{ "stack", json_stack(suspect->site->stack) });
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_growth *growth = view->process->growth;

	if (!growth)
		return;
	json_set(object, "growth", JSON_OBJECT(
		{ "step_count", json_number(growth->step_count) },
		{ "suspects", JSON_LIST(growth->suspects, growth->suspect_count, suspect_json) },
		{ "suppressed", json_number(growth->suppressed) },
		{ "not_judged", json_number(growth->lost) },
		{ "steps", JSON_LIST(growth->steps, growth->stored_count, step_json) }));
}

/* ---- gate ---- */

static void growth_reason(struct judgement *judgement, const char *who,
			  const struct report_suspect *suspect, uint64_t allowed)
{
	char objects[FORMAT_OBJECTS_MAX];
	const struct report_frame *frame = report_stack_culprit(suspect->site->stack);
	const char *what = frame && frame->function ? frame->function : suspect->site->api;

	if (kind_is_object(suspect->site->kind)) {
		format_objects(suspect->blocks_per_step, suspect->site->kind, objects);
		judgement_reason(judgement, "%s in %s grows by %s per step, 0 allowed", what, who,
				 objects);
		return;
	}
	judgement_reason(judgement, "memory allocated by %s in %s grows by %s per step, %s allowed",
			 what, who, EXACT_SIZE(suspect->bytes_per_step),
			 allowed ? EXACT_SIZE(allowed) : "0");
}

static bool fails(const struct judge_input *input, const struct report_suspect *suspect)
{
	if (kind_is_object(suspect->site->kind))
		return input->count_objects;
	return !input->max_growth || suspect->bytes_per_step > input->max_growth;
}

/* A process with too few steps fails. A process without allocations passes. */
static void add_reasons(struct judgement *judgement, const struct judge_input *input,
			const struct report_process *p)
{
	const struct report_growth *growth = p->growth;
	uint64_t steps = growth ? growth->step_count : 0;
	char who[FORMAT_PLACE_MAX];

	if (!input->growth_wanted || (!growth && p->summary.allocated_blocks == 0))
		return;
	format_process(p, who);
	if (steps < GROWTH_STEPS_MIN)
		judgement_reason(judgement, "%s marked %" PRIu64 " step%s: growth is judged from "
				 "%u steps on", who, steps, plural(steps), GROWTH_STEPS_MIN);
	if (growth && growth->lost)
		judgement_reason(judgement, "%s: the ledger had no room for the growth of some "
				 "call sites, so these may grow, too", who);
	for (size_t i = 0; growth && i < growth->suspect_count; i++)
		if (fails(input, &growth->suspects[i]))
			growth_reason(judgement, who, &growth->suspects[i], input->max_growth);
}

const struct subject subject_growth = { .finding = print_finding, .json = add_json,
					.judge = add_reasons };
