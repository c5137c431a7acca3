/* SPDX-License-Identifier: MIT
 *
 * Applies the gate to objects that are not memory and were left at exit. Frameworks keep some of
 * them until their process ends, so they fail the gate only by a budget or --gate-objects.
 */
#include <inttypes.h>
#include <string.h>

#include "ledger/kind_table.h"
#include "report/describe/kinds.h"
#include "report/gate/budgets.h"
#include "report/gate/judge_internal.h"
#include "report/model/model.h"
#include "report/util/number.h"

struct left {
	uint64_t count, most;
	const struct report_stack *stack; /* of the largest group; NULL: nothing is left */
};

/* Sums up the objects of KIND in all processes that no suppression matches. */
static struct left left_of(const struct report *report, const char *kind)
{
	struct left left = { 0 };

	for (size_t i = 0; i < report->count; i++)
		for (size_t j = 0; j < report->processes[i]->object_count; j++) {
			const struct report_leak *object = &report->processes[i]->objects[j];

			if (object->pattern || strcmp(object->kind, kind) != 0)
				continue;
			left.count = add_bounded(left.count, object->blocks);
			if (left.stack && object->blocks <= left.most)
				continue;
			left.most = object->blocks;
			left.stack = object->stack;
		}
	return left;
}

static void judge_budget(struct bench *bench, const struct judge_input *input,
			 const struct budget *rule, const char *kind)
{
	struct left left = left_of(input->report, kind);
	char objects[FORMAT_OBJECTS_MAX], place[FORMAT_PLACE_MAX];

	if (left.count <= rule->limit)
		return;
	format_objects(left.count, kind, objects);
	format_place(left.stack, place);
	judge_reason(bench, "%s (%s:%u): %s not destroyed, %" PRIu64 " allowed, %" PRIu64
		     " over; most at %s", rule->text, input->budgets->name, rule->line, objects,
		     rule->limit, left.count - rule->limit, place);
}

static void judge_kind(struct bench *bench, const struct judge_input *input, const char *kind)
{
	const struct budgets *budgets = input->budgets;
	char objects[FORMAT_OBJECTS_MAX], place[FORMAT_PLACE_MAX];
	bool has_budget = false;
	struct left left;

	for (size_t i = 0; budgets && i < budgets->count; i++) {
		const struct budget *rule = &budgets->rules[i];

		if (rule->subject != BUDGET_OBJECT ||
		    strcmp(rule->pattern.text, object_name(kind)) != 0)
			continue;
		has_budget = true;
		judge_budget(bench, input, rule, kind);
	}
	left = left_of(input->report, kind);
	if (has_budget || !input->count_objects || !left.count)
		return;
	format_objects(left.count, kind, objects);
	format_place(left.stack, place);
	judge_reason(bench, "%s not destroyed, 0 allowed; most at %s", objects, place);
}

void judge_objects(struct bench *bench, const struct judge_input *input)
{
	for (const struct kind *kind = kinds; kind->name[0]; kind++)
		if (kind_is_object(kind->name))
			judge_kind(bench, input, kind->name);
}
