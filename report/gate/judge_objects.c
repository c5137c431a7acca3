/* SPDX-License-Identifier: MIT
 *
 * Applies the gate to objects that are not memory and were left at exit. Frameworks keep some of
 * them until their process ends, so they fail the gate only by a budget or --gate-objects.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/kind_table.h"
#include "report/analyze/leak_totals.h"
#include "report/describe/kinds.h"
#include "report/gate/baseline.h"
#include "report/gate/gate_rules.h"
#include "report/gate/judge_internal.h"
#include "report/model/model.h"
#include "report/util/number.h"

struct left {
	uint64_t count, most;
	const struct report_stack *stack; /* of the largest group; NULL: nothing is left */
};

/* The CUDA and OpenCL objects of a report that were not destroyed (streams, events ...), and the
 * user's baseline, which lists those that are already known. */
struct objects {
	const struct report *report;
	const struct pattern_file *baseline; /* NULL if the user gave no baseline */
	/* for each entry of the baseline: how many of its objects were not subtracted yet */
	uint64_t *known;
};

/* Returns how many of the objects at one call site the baseline does not know. */
static uint64_t beyond_known(const struct objects *all, const struct report_leak *object)
{
	const struct pattern_rule *entry =
		baseline_find(all->baseline, report_leak_fingerprint(object));
	uint64_t *known = entry ? &all->known[entry - all->baseline->rules] : NULL;
	uint64_t taken = !known ? 0 : *known < object->blocks ? *known : object->blocks;

	if (known)
		*known -= taken;
	return object->blocks - taken;
}

/* Sums up the objects of KIND in all processes that no suppression matches and the baseline does
 * not know. */
static struct left left_of(const struct objects *all, const char *kind)
{
	struct left left = { 0 };

	for (size_t i = 0; all->baseline && i < all->baseline->count; i++)
		all->known[i] = all->baseline->rules[i].blocks;
	for (size_t i = 0; i < all->report->count; i++)
		for (size_t j = 0; j < all->report->processes[i]->object_count; j++) {
			const struct report_leak *object = &all->report->processes[i]->objects[j];
			uint64_t count;

			if (object->pattern || strcmp(object->kind, kind) != 0)
				continue;
			count = beyond_known(all, object);
			left.count = add_bounded(left.count, count);
			if (!count || (left.stack && count <= left.most))
				continue;
			left.most = count;
			left.stack = object->stack;
		}
	return left;
}

static void judge_budget(struct bench *bench, const struct judge_input *input,
			 const struct objects *all, const struct pattern_rule *rule,
			 const char *kind)
{
	struct left left = left_of(all, kind);
	char objects[FORMAT_OBJECTS_MAX], place[FORMAT_PLACE_MAX];

	if (left.count <= rule->limit)
		return;
	format_objects(left.count, kind, objects);
	format_place(left.stack, place);
	judge_reason(bench, "%s (%s:%u): %s not destroyed, %" PRIu64 " allowed, %" PRIu64
		     " over; most at %s", rule->text, input->budgets->name, rule->line, objects,
		     rule->limit, left.count - rule->limit, place);
}

static void judge_kind(struct bench *bench, const struct judge_input *input,
		       const struct objects *all, const char *kind)
{
	const struct pattern_file *budgets = input->budgets;
	char objects[FORMAT_OBJECTS_MAX], place[FORMAT_PLACE_MAX];
	bool has_budget = false;
	struct left left;

	for (size_t i = 0; budgets && i < budgets->count; i++) {
		const struct pattern_rule *rule = &budgets->rules[i];

		if (rule->subject != GATE_OBJECT ||
		    strcmp(rule->pattern.text, object_name(kind)) != 0)
			continue;
		has_budget = true;
		judge_budget(bench, input, all, rule, kind);
	}
	left = left_of(all, kind);
	if (has_budget || !input->count_objects || !left.count)
		return;
	format_objects(left.count, kind, objects);
	format_place(left.stack, place);
	judge_reason(bench, "%s not destroyed, 0 allowed; most at %s", objects, place);
}

void judge_objects(struct bench *bench, const struct judge_input *input)
{
	struct objects all = { .report = input->report, .baseline = input->baseline };

	all.known = calloc(input->baseline ? input->baseline->count + 1 : 1, sizeof(*all.known));
	if (!all.known) {
		bench->result = -ENOMEM;
		return;
	}
	for (const struct kind *kind = kinds; kind->name[0]; kind++)
		if (kind_is_object(kind->name))
			judge_kind(bench, input, &all, kind->name);
	free(all.known);
}
