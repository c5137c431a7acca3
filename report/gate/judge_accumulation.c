/* SPDX-License-Identifier: MIT
 *
 * Applies the gate to suballocations that accumulate: --gate-accumulation, budgets, --max-growth.
 * Without these options the gate does not fail because of them, and its result mentions them.
 * Suppressed ones never count, and neither do those that the baseline has.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "report/subjects/subject_words.h"
#include "report/gate/baseline.h"
#include "report/gate/judge_internal.h"
#include "report/model/growth_rule.h"
#include "report/model/model.h"

#define AMOUNT_MAX (FORMAT_SIZE_MAX + 64)

/* Writes "1,024 bytes (1.0 KiB) in 2 tensors accumulate" for WORD "tensor". */
static const char *format_kept(uint64_t bytes, uint64_t blocks, const char *word,
			       char ret[AMOUNT_MAX])
{
	snprintf(ret, AMOUNT_MAX, "%s in %" PRIu64 " %s%s accumulate%s", EXACT_SIZE(bytes), blocks,
		 word, plural(blocks), blocks == 1 ? "s" : "");
	return ret;
}

/* Returns true if --max-growth was given and the process marked enough steps to judge the growth
 * per step. Then adds a reason if CHARGE grew by more per step than --max-growth allows. */
static bool judge_per_step(struct bench *bench, const struct leak_total *charge)
{
	const struct judge_input *input = bench->input;
	const struct report_growth *growth = charge->process->growth;
	uint64_t steps = growth ? growth->step_count : 0;

	if (!input->growth_wanted || steps < GROWTH_STEPS_MIN)
		return false;
	if (input->max_growth && charge->bytes / steps <= input->max_growth)
		return true;
	judgement_reason(bench->judgement, "%ss accumulate by %s per step at %s, %s allowed",
			 suballocation_word(charge->largest->cache),
			 EXACT_SIZE(charge->bytes / steps), PLACE(charge->largest->site->stack),
			 ALLOWED(input->max_growth));
	return true;
}

/* Returns true if CHARGE is at a place for which --gate-accumulation makes the gate fail. The
 * amounts in the baseline do not matter, because what is kept grows with the length of a run. */
static bool is_counted(struct bench *bench, const struct leak_total *charge)
{
	if (charge->of != TOTALS_OF_ACCUMULATIONS ||
	    bench->covered[charge - bench->charges.entries] ||
	    baseline_find(bench->input->baseline, charge->fingerprint) ||
	    judge_per_step(bench, charge))
		return false;
	if (bench->input->count_accumulation || charge->process->attached)
		return true;
	judge_spend(&bench->accumulating, charge->bytes, charge->blocks,
		    charge->largest->site->stack);
	bench->accumulating_cache = charge->largest->cache;
	return false;
}

/* Returns true if it is unknown whether suballocations accumulated: the content of a cache was not
 * recorded, or some call sites have no usable samples. */
static bool is_unknown(const struct report_process *p)
{
	for (size_t i = 0; i < p->cached_count && !p->has_suballocations; i++)
		if (strcmp(p->cached[i].cache, "PyTorch caching allocator") == 0)
			return true;
	return p->unsampled_suballocations != 0;
}

/* The lines of the application for which the gate fails. */
struct places {
	struct leak_total list[JUDGE_PLACES_MAX]; /* with the sums of their stacks */
	size_t count, more;
};

static void add_place(struct places *places, const struct leak_total *charge)
{
	uint64_t line = report_site_line(charge->largest->site);

	for (size_t i = 0; i < places->count; i++) {
		struct leak_total *known = &places->list[i];

		if (known->process != charge->process || known->fingerprint != line)
			continue;
		known->bytes = add_bounded(known->bytes, charge->bytes);
		known->blocks = add_bounded(known->blocks, charge->blocks);
		return;
	}
	if (places->count == JUDGE_PLACES_MAX) {
		places->more++;
		return;
	}
	places->list[places->count] = *charge;
	places->list[places->count++].fingerprint = line;
}

static void judge_place(struct bench *bench, const struct leak_total *charge)
{
	char kept[AMOUNT_MAX];

	judgement_reason(bench->judgement, "%s at %s in %s, 0 allowed",
			 format_kept(charge->bytes, charge->blocks,
				     suballocation_word(charge->largest->cache), kept),
			 PLACE(charge->largest->site->stack), PROCESS(charge->process));
}

void judge_accumulation(struct bench *bench)
{
	const struct report *report = bench->input->report;
	const struct leak_total *charges = bench->charges.entries;
	struct places places = { .count = 0 };
	size_t at = 0;

	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *p = report->processes[i];

		if (bench->input->count_accumulation && is_unknown(p))
			judgement_reason(bench->judgement, "the ledger of %s does not show if "
					 "tensors accumulate: record it with --suballocations on "
					 "and this version of gpuleak", PROCESS(p));
		for (; at < bench->charges.count && charges[at].process == p; at++)
			if (is_counted(bench, &charges[at]))
				add_place(&places, &charges[at]);
	}
	for (size_t i = 0; i < places.count; i++)
		judge_place(bench, &places.list[i]);
	if (places.more)
		judgement_reason(bench->judgement, "tensors accumulate at %zu more places",
				 places.more);
}

void judge_mention_accumulation(struct bench *bench, bool passed)
{
	static const char format[] =
		"%s, which does not count (--gate-accumulation 1 counts it)";
	const struct spent *spent = &bench->accumulating;
	char kept[AMOUNT_MAX];

	if (!spent->blocks)
		return;
	format_kept(spent->bytes, spent->blocks, suballocation_word(bench->accumulating_cache),
		    kept);
	if (passed)
		judgement_reason(bench->judgement, format, kept);
	else
		judgement_note(bench->judgement, format, kept);
}
