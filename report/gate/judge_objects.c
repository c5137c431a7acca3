/* SPDX-License-Identifier: MIT
 *
 * Applies the gate to objects that are not memory and were left at exit. Frameworks keep some of
 * them until their process ends, so they fail the gate only by a budget or --gate-objects.
 */
#include <inttypes.h>
#include <string.h>

#include "ledger/kind_table.h"
#include "report/describe/kinds.h"
#include "report/gate/gate_rules.h"
#include "report/gate/judge_internal.h"
#include "report/model/model.h"

/* Sums up the objects of KIND in all processes that the baseline does not know. */
static struct spent left_of(const struct bench *bench, const char *kind)
{
	struct spent left = { 0 };

	for (size_t i = 0; i < bench->objects.count; i++) {
		const struct charge *charge = &bench->objects.list[i];

		if (strcmp(charge->leak->kind, kind) == 0)
			judge_spend(&left, charge->blocks, charge->blocks, charge->leak->stack);
	}
	return left;
}

static void judge_budget(struct bench *bench, const struct judge_input *input,
			 const struct pattern_rule *rule, const char *kind,
			 const struct spent *left)
{
	char objects[FORMAT_OBJECTS_MAX], place[FORMAT_PLACE_MAX];

	if (left->blocks <= rule->limit)
		return;
	format_objects(left->blocks, kind, objects);
	format_place(left->largest, place);
	judge_reason(bench, "%s (%s:%u): %s not destroyed, %" PRIu64 " allowed, %" PRIu64
		     " over; most at %s", rule->text, input->budgets->name, rule->line, objects,
		     rule->limit, left->blocks - rule->limit, place);
}

static void judge_kind(struct bench *bench, const struct judge_input *input, const char *kind)
{
	struct spent left = left_of(bench, kind);
	const struct pattern_file *budgets = input->budgets;
	char objects[FORMAT_OBJECTS_MAX], place[FORMAT_PLACE_MAX];
	bool has_budget = false;

	for (size_t i = 0; budgets && i < budgets->count; i++) {
		const struct pattern_rule *rule = &budgets->rules[i];

		if (rule->subject != GATE_OBJECT ||
		    strcmp(rule->pattern.text, object_name(kind)) != 0)
			continue;
		has_budget = true;
		judge_budget(bench, input, rule, kind, &left);
	}
	if (has_budget || !input->count_objects || !left.blocks)
		return;
	format_objects(left.blocks, kind, objects);
	format_place(left.largest, place);
	judge_reason(bench, "%s not destroyed, 0 allowed; most at %s", objects, place);
}

void judge_objects(struct bench *bench, const struct judge_input *input)
{
	for (const struct kind *kind = kinds; kind->name[0]; kind++)
		if (kind_is_object(kind->name))
			judge_kind(bench, input, kind->name);
}
