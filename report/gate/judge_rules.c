/* SPDX-License-Identifier: MIT
 *
 * Applies the rules of users: budgets and the policy of --only-at. Budgets are for kinds, calls,
 * devices, call sites and objects that are not memory. A leak counts against every budget that
 * covers it. Then it does not count against --max-leaked-bytes, which would otherwise have to be
 * the sum of all budgets. The policy must allow every call site that allocated, even if all blocks
 * were freed. Only a kind or a call can allow a site without a stack.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ledger/kind_table.h"
#include "report/describe/kinds.h"
#include "report/subjects/subject_words.h"
#include "report/gate/gate_rules.h"
#include "report/gate/judge_internal.h"
#include "report/model/model.h"

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

/* Returns true if CHARGE counts against RULE. Memory in caches counts against budgets for caches.
 * With --gate-caches 1 it also counts against all other budgets. */
static bool counts(const struct bench *bench, const struct pattern_rule *rule,
		   const struct leak_total *charge)
{
	unsigned int of = rule->subject == GATE_ACCUMULATION ? TOTALS_OF_ACCUMULATIONS
			  : rule->subject == GATE_CACHE || bench->input->count_caches
				  ? TOTALS_OF_LEAKS | TOTALS_OF_CONTEXT_ENDS | TOTALS_OF_CACHES
				  : TOTALS_OF_LEAKS | TOTALS_OF_CONTEXT_ENDS;

	return charge->of & of && budget_covers(rule, charge->largest);
}

static struct spent spend_all(struct bench *bench, const struct pattern_rule *rule)
{
	struct spent spent = { 0 };

	for (size_t i = 0; i < bench->charges.count; i++) {
		const struct leak_total *charge = &bench->charges.entries[i];

		if (!counts(bench, rule, charge))
			continue;
		bench->covered[i] = true;
		judge_spend(&spent, charge->keeps, charge->blocks, charge->largest->site->stack);
	}
	return spent;
}

static void budget_reason(struct bench *bench, const struct pattern_rule *rule,
			  const struct spent *spent)
{
	const char *file = bench->input->budgets->name;
	const char *verb = rule->subject == GATE_CACHE	  ? "held"
			   : rule->subject == GATE_ACCUMULATION ? "accumulated"
								  : "leaked";

	if (rule->in_blocks)
		judgement_reason(bench->judgement, "%s (%s:%u): %" PRIu64 " blocks %s, %" PRIu64
				 " allowed, %" PRIu64 " over; most at %s", rule->text, file,
				 rule->line, spent->blocks, verb, rule->limit,
				 spent->blocks - rule->limit, PLACE(spent->largest));
	else
		judgement_reason(bench->judgement, "%s (%s:%u): %s in %" PRIu64 " block%s %s, "
				 "%s allowed, %s over; most at %s", rule->text, file, rule->line,
				 EXACT_SIZE(spent->bytes), spent->blocks, plural(spent->blocks),
				 verb, EXACT_SIZE(rule->limit),
				 EXACT_SIZE(spent->bytes - rule->limit), PLACE(spent->largest));
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

static void judge_peak(struct bench *bench, const struct pattern_rule *rule)
{
	const struct judge_input *input = bench->input;
	char holders[HOLDERS_TEXT_MAX];

	for (size_t i = 0; i < input->report->count; i++) {
		const struct report_process *p = input->report->processes[i];
		uint64_t peak = p->summary.peak_bytes;

		if (peak > rule->limit)
			judgement_reason(bench->judgement, "peak (%s:%u): %s held %s at one time, "
					 "%s allowed, %s over%s", input->budgets->name, rule->line,
					 PROCESS(p), EXACT_SIZE(peak), EXACT_SIZE(rule->limit),
					 EXACT_SIZE(peak - rule->limit),
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

/* What is left of a range may be in a framework's cache, and is no leak then. So it is judged
 * beside the leaks, as the report lists it. */
static void judge_ranges(struct bench *bench, const struct pattern_rule *rule)
{
	const struct report *report = bench->input->report;
	struct spent left = { 0 };

	for (size_t i = 0; i < report->count; i++)
		for (size_t j = 0; j < report->processes[i]->range_count; j++) {
			const struct report_range *range = &report->processes[i]->ranges[j];

			if (range->name && frame_pattern_match(&rule->pattern, range->name))
				judge_spend(&left, range->left_bytes, range->left_blocks, NULL);
		}
	if (exceeded(rule, &left))
		judgement_reason(bench->judgement, "%s (%s:%u): %s in %" PRIu64 " block%s left, "
				 "%s allowed", rule->text, bench->input->budgets->name, rule->line,
				 EXACT_SIZE(left.bytes), left.blocks, plural(left.blocks),
				 rule->in_blocks ? COUNT(rule->limit, "block")
						 : EXACT_SIZE(rule->limit));
}

void judge_budgets(struct bench *bench)
{
	const struct pattern_file *budgets = bench->input->budgets;

	for (size_t i = 0; budgets && i < budgets->count; i++) {
		const struct pattern_rule *rule = &budgets->rules[i];
		struct spent spent = spend_all(bench, rule);

		if (rule->subject == GATE_PEAK)
			judge_peak(bench, rule);
		else if (rule->subject == GATE_RANGE)
			judge_ranges(bench, rule);
		else if (exceeded(rule, &spent))
			budget_reason(bench, rule, &spent);
	}
}

/* ---- objects ---- */

/* Sums up the objects of KIND in all processes that the baseline does not know. */
static struct spent left_of(const struct bench *bench, const char *kind)
{
	struct spent left = { 0 };

	EACH_ITEM(bench->charges.entries, bench->charges.count, charge) {
		const struct report_site *site = charge->largest->site;

		if (charge->of == TOTALS_OF_OBJECTS && strcmp(site->kind, kind) == 0)
			judge_spend(&left, charge->blocks, charge->blocks, site->stack);
	}
	return left;
}

static void judge_kind(struct bench *bench, const char *kind)
{
	const struct pattern_file *budgets = bench->input->budgets;
	struct spent left = left_of(bench, kind);
	bool has_budget = false;

	for (size_t i = 0; budgets && i < budgets->count; i++) {
		const struct pattern_rule *rule = &budgets->rules[i];

		if (rule->subject != GATE_OBJECT ||
		    strcmp(rule->pattern.text, object_name(kind)) != 0)
			continue;
		has_budget = true;
		if (left.blocks > rule->limit)
			judgement_reason(bench->judgement, "%s (%s:%u): %s not destroyed, %" PRIu64
					 " allowed, %" PRIu64 " over; most at %s", rule->text,
					 budgets->name, rule->line, OBJECTS(left.blocks, kind),
					 rule->limit, left.blocks - rule->limit,
					 PLACE(left.largest));
	}
	if (!has_budget && bench->input->count_objects && left.blocks)
		judgement_reason(bench->judgement, "%s not destroyed, 0 allowed; most at %s",
				 OBJECTS(left.blocks, kind), PLACE(left.largest));
}

/* Frameworks keep some objects until their process ends, so objects fail the gate only by a budget
 * or --gate-objects. */
void judge_objects(struct bench *bench)
{
	for (const struct kind *kind = kinds; kind->name[0]; kind++)
		if (kind_is_object(kind->name))
			judge_kind(bench, kind->name);
}

/* ---- the policy of --only-at ---- */

/* Call sites that already have a reason. If a site occurs again in another process, device or line,
 * it gets no second reason: `again` counts these cases. */
struct listed {
	uint64_t fingerprints[JUDGE_PLACES_MAX];
	size_t count;  /* number of different sites, including those beyond the array */
	size_t again;
};

static bool is_listed(struct listed *listed, const struct report_site *site)
{
	uint64_t fingerprint = report_site_fingerprint(site);
	size_t known = listed->count < JUDGE_PLACES_MAX ? listed->count : JUDGE_PLACES_MAX;

	for (size_t i = 0; i < known; i++)
		if (listed->fingerprints[i] == fingerprint)
			return true;
	if (listed->count < JUDGE_PLACES_MAX)
		listed->fingerprints[listed->count] = fingerprint;
	return false;
}

static void judge_site(struct bench *bench, struct listed *listed, const struct report_process *p,
		       const struct report_site_sums *sums)
{
	const struct pattern_file *policy = bench->input->only_at;
	const struct report_site *site = sums->site;

	if (sums->again || only_at_allows(policy, site))
		return;
	if (is_listed(listed, site))
		listed->again++;
	else if (listed->count++ < JUDGE_PLACES_MAX)
		judgement_reason(bench->judgement, "%s allocated %s in %" PRIu64 " block%s "
				 "(%s, %s) at %s, which no rule in %s allows", PROCESS(p),
				 EXACT_SIZE(sums->allocated_bytes), sums->allocated_blocks,
				 plural(sums->allocated_blocks), kind_words(site->kind), site->api,
				 PLACE(site->stack), policy->name);
}

void judge_only_at(struct bench *bench)
{
	const struct report *report = bench->input->report;
	const struct pattern_file *policy = bench->input->only_at;
	struct listed listed = { .count = 0 };

	for (size_t i = 0; policy && i < report->count; i++)
		for (size_t j = 0; j < report->processes[i]->site_count; j++)
			judge_site(bench, &listed, report->processes[i],
				   &report->processes[i]->sites[j]);
	if (listed.again)
		judgement_reason(bench->judgement,
				 "%zu more call site%s allocated memory that no rule in %s allows, "
				 "in functions that are already named: on other devices or lines, "
				 "or in other processes",
				 listed.again, plural(listed.again), policy->name);
	if (listed.count > JUDGE_PLACES_MAX)
		judgement_reason(bench->judgement,
				 "%zu more places allocated memory that no rule in %s allows",
				 listed.count - JUDGE_PLACES_MAX, policy->name);
}
