/* SPDX-License-Identifier: MIT
 *
 * Applies budgets for kinds, calls, devices and call sites. A leak counts against every budget
 * that covers it. Then it does not count against --max-leaked-bytes, which would otherwise have
 * to be the sum of all budgets.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "report/subjects/subject_words.h"
#include "report/gate/gate_rules.h"
#include "report/gate/judge_internal.h"
#include "report/model/model.h"
#include "report/model/model_suballocations.h"

#define HOLDERS_TEXT_MAX 1024

void judge_spend(struct spent *spent, uint64_t bytes, uint64_t blocks,
		 const struct report_stack *stack)
{
	if (bytes == 0 && blocks == 0)
		return;
	spent->bytes = add_bounded(spent->bytes, bytes);
	spent->blocks = add_bounded(spent->blocks, blocks);
	if (!spent->largest || bytes > spent->largest_bytes) {
		spent->largest = stack;
		spent->largest_bytes = bytes;
	}
}

/* Sums up what counts against RULE. Memory in caches counts against budgets for caches. With
 * --gate-caches 1 it also counts against all other budgets. */
static void spend_all(struct bench *bench, const struct judge_input *input,
		      const struct pattern_rule *rule, struct spent *spent)
{
	for (size_t i = 0; i < bench->memory.count; i++) {
		struct charge *charge = &bench->memory.list[i];

		if (charge->leak->cache && rule->subject != GATE_CACHE && !input->count_caches)
			continue;
		if (!budget_covers(rule, charge->leak))
			continue;
		charge->covered = true;
		judge_spend(spent, charge->bytes, charge->blocks, charge->leak->stack);
	}
}

static void spend_accumulations(const struct judge_input *input, const struct pattern_rule *rule,
				struct spent *spent)
{
	for (size_t i = 0; i < input->report->count; i++) {
		const struct report_process *p = input->report->processes[i];

		for (size_t j = 0; j < p->suballocation_count; j++) {
			const struct report_suballocations *entry = &p->suballocations[j];

			if (report_accumulates(entry) &&
			    budget_covers_accumulation(rule, entry->live.stack))
				judge_spend(spent, entry->kept_bytes, entry->kept_blocks,
				      entry->live.stack);
		}
	}
}

static void budget_reason(struct bench *bench, const struct pattern_file *budgets,
			  const struct pattern_rule *rule, const struct spent *spent)
{
	const char *verb = rule->subject == GATE_CACHE	  ? "held"
			   : rule->subject == GATE_ACCUMULATION ? "accumulated"
								  : "leaked";
	char allowed[FORMAT_SIZE_MAX], over[FORMAT_SIZE_MAX];
	char place[FORMAT_PLACE_MAX];

	format_place(spent->largest, place);
	if (rule->in_blocks)
		judge_reason(bench, "%s (%s:%u): %" PRIu64 " blocks %s, %" PRIu64 " allowed, "
			     "%" PRIu64 " over; most at %s", rule->text, budgets->name, rule->line,
			     spent->blocks, verb, rule->limit, spent->blocks - rule->limit, place);
	else
		judge_reason(bench,
			     "%s (%s:%u): %s in %" PRIu64 " block%s %s, %s allowed, "
			     "%s over; most at %s",
			     rule->text, budgets->name, rule->line,
			     EXACT_SIZE(spent->bytes), spent->blocks,
			     plural(spent->blocks), verb, format_exact_size(rule->limit, allowed),
			     format_exact_size(spent->bytes - rule->limit, over), place);
}

/* Writes what held the memory at the peak to RET: "; 8.0 GiB of device 0: 6.0 GiB workspace
 * (/abs/solver.c:41)". Writes an empty string if the ledger does not record who held it. Returns
 * RET. */
static const char *format_holders(const struct report_process *process, char ret[HOLDERS_TEXT_MAX])
{
	FILE *out;

	ret[0] = '\0';
	if (!process->peak_count)
		return ret;
	out = fmemopen(ret, HOLDERS_TEXT_MAX, "w");
	fputs("; ", out);
	describe_peak_holders(out, process->peaks, false);
	fclose(out);
	ret[HOLDERS_TEXT_MAX - 1] = '\0';
	return ret;
}

static void judge_peak(struct bench *bench, const struct judge_input *input,
		       const struct pattern_rule *rule)
{
	char peak[FORMAT_SIZE_MAX], allowed[FORMAT_SIZE_MAX], over[FORMAT_SIZE_MAX];
	char who[FORMAT_PLACE_MAX], holders[HOLDERS_TEXT_MAX];

	for (size_t i = 0; i < input->report->count; i++) {
		const struct report_process *p = input->report->processes[i];

		if (p->summary.peak_bytes <= rule->limit)
			continue;
		judge_reason(bench, "peak (%s:%u): %s held %s at one time, %s allowed, "
			     "%s over%s", input->budgets->name, rule->line, format_process(p, who),
			     format_exact_size(p->summary.peak_bytes, peak),
			     format_exact_size(rule->limit, allowed),
			     format_exact_size(p->summary.peak_bytes - rule->limit, over),
			     format_holders(p, holders));
	}
}

/* Returns true if SPENT exceeds RULE. A budget of 0 bytes allows no block, not even one of 0
 * bytes. */
static bool exceeded(const struct pattern_rule *rule, const struct spent *spent)
{
	if (rule->in_blocks)
		return spent->blocks > rule->limit;
	return spent->bytes > rule->limit || (rule->limit == 0 && spent->blocks > 0);
}

void judge_budgets(struct bench *bench, const struct judge_input *input)
{
	for (size_t i = 0; input->budgets && i < input->budgets->count; i++) {
		const struct pattern_rule *rule = &input->budgets->rules[i];
		struct spent spent = { 0 };

		if (rule->subject == GATE_OBJECT)
			continue; /* see judge_objects.c */
		if (rule->subject == GATE_PEAK) {
			judge_peak(bench, input, rule);
			continue;
		}
		if (rule->subject == GATE_ACCUMULATION)
			spend_accumulations(input, rule, &spent);
		else
			spend_all(bench, input, rule, &spent);
		if (exceeded(rule, &spent))
			budget_reason(bench, input->budgets, rule, &spent);
	}
}
