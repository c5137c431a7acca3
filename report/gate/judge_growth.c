/* SPDX-License-Identifier: MIT
 *
 * Applies the gate to growth from step to step. A process with too few steps fails. A process
 * without allocations passes.
 */
#include <inttypes.h>

#include "report/describe/kinds.h"
#include "report/model/growth_rule.h"
#include "report/gate/judge_internal.h"
#include "report/model/model.h"

static void growth_reason(struct bench *bench, const char *who,
			  const struct report_suspect *suspect, uint64_t allowed)
{
	char grown[FORMAT_SIZE_MAX], budget[FORMAT_SIZE_MAX], objects[FORMAT_OBJECTS_MAX];
	const struct report_frame *frame = report_stack_culprit(suspect->stack);
	const char *what = frame && frame->function ? frame->function : suspect->api;

	if (kind_is_object(suspect->kind)) {
		format_objects(suspect->blocks_per_step, suspect->kind, objects);
		judge_reason(bench, "%s in %s grows by %s per step, 0 allowed", what, who, objects);
		return;
	}
	judge_reason(bench, "memory allocated by %s in %s grows by %s per step, %s allowed", what,
		     who, format_exact_size(suspect->bytes_per_step, grown),
		     allowed ? format_exact_size(allowed, budget) : "0");
}

static bool fails(const struct judge_input *input, const struct report_suspect *suspect)
{
	if (kind_is_object(suspect->kind))
		return input->count_objects;
	return !input->max_growth || suspect->bytes_per_step > input->max_growth;
}

void judge_growth(struct bench *bench, const struct judge_input *input,
		  const struct report_process *p)
{
	const struct report_growth *growth = p->growth;
	uint64_t steps = growth ? growth->step_count : 0;
	char who[FORMAT_PLACE_MAX];

	if (!input->growth_wanted || (!growth && p->summary.allocated_blocks == 0))
		return;
	format_process(p, who);
	if (steps < GROWTH_STEPS_MIN)
		judge_reason(bench, "%s marked %" PRIu64 " step%s: growth is judged from %u steps "
				    "on",
			     who, steps, plural(steps), GROWTH_STEPS_MIN);
	if (growth && growth->lost)
		judge_reason(bench,
			     "%s: the ledger had no room for the growth of some call sites, so "
			     "these may grow, too",
			     who);
	for (size_t i = 0; growth && i < growth->suspect_count; i++)
		if (fails(input, &growth->suspects[i]))
			growth_reason(bench, who, &growth->suspects[i], input->max_growth);
}
