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
#include "report/gate/gate_rules.h"
#include "report/gate/judge_internal.h"
#include "report/model/growth_rule.h"
#include "report/model/model.h"
#include "report/model/model_suballocations.h"

#define AMOUNT_MAX (FORMAT_SIZE_MAX + 64)

/* Writes "1,024 bytes (1.0 KiB) in 2 tensors accumulate" for WORD "tensor". */
static const char *format_kept(uint64_t bytes, uint64_t blocks, const char *word,
			       char ret[AMOUNT_MAX])
{
	snprintf(ret, AMOUNT_MAX, "%s in %" PRIu64 " %s%s accumulate%s",
		 EXACT_SIZE(bytes), blocks, word, plural(blocks),
		 blocks == 1 ? "s" : "");
	return ret;
}

static bool is_covered(const struct pattern_file *budgets,
		       const struct report_suballocations *entry)
{
	for (size_t i = 0; budgets && i < budgets->count; i++)
		if (budget_covers_accumulation(&budgets->rules[i], entry->live.stack))
			return true;
	return false;
}

/* Returns true if BASELINE has ENTRY. The amounts in the baseline do not matter, because what is
 * kept grows with the length of a run. */
static bool is_known(const struct pattern_file *baseline, const struct report_suballocations *entry)
{
	return baseline_find(baseline, report_leak_fingerprint(&entry->live)) != NULL;
}

/* Returns true if --max-growth was given and P marked enough steps to judge the growth per step.
 * Then adds a reason if ENTRY grew by more per step than --max-growth allows. */
static bool judge_per_step(struct bench *bench, const struct judge_input *input,
			   const struct report_process *p,
			   const struct report_suballocations *entry)
{
	uint64_t steps = p->growth ? p->growth->step_count : 0;
	char place[FORMAT_PLACE_MAX], allowed[FORMAT_SIZE_MAX];

	if (!input->growth_wanted || steps < GROWTH_STEPS_MIN)
		return false;
	if (input->max_growth && entry->kept_bytes / steps <= input->max_growth)
		return true;
	judge_reason(bench, "%ss accumulate by %s per step at %s, %s allowed",
		     suballocation_word(entry->live.cache),
		     EXACT_SIZE(entry->kept_bytes / steps),
		     format_place(entry->live.stack, place),
		     input->max_growth ? format_exact_size(input->max_growth, allowed) : "0");
	return true;
}

static void judge_entry(struct bench *bench, const struct judge_input *input,
			const struct report_process *p, const struct report_suballocations *entry)
{
	char kept[AMOUNT_MAX], place[FORMAT_PLACE_MAX], who[FORMAT_PLACE_MAX];

	if (is_known(input->baseline, entry) || is_covered(input->budgets, entry) ||
	    judge_per_step(bench, input, p, entry))
		return;
	if (!input->count_accumulation) {
		bench->accumulating_blocks = add_bounded(bench->accumulating_blocks,
							 entry->kept_blocks);
		bench->accumulating_bytes = add_bounded(bench->accumulating_bytes,
							entry->kept_bytes);
		bench->accumulating_cache = entry->live.cache;
		return;
	}
	if (bench->accumulating_places++ >= JUDGE_PLACES_MAX)
		return;
	judge_reason(bench, "%s at %s in %s, 0 allowed",
		     format_kept(entry->kept_bytes, entry->kept_blocks,
				 suballocation_word(entry->live.cache), kept),
		     format_place(entry->live.stack, place), format_process(p, who));
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

static void judge_list(struct bench *bench, const struct judge_input *input,
			  const struct report_process *p)
{
	char who[FORMAT_PLACE_MAX];

	if (input->count_accumulation && is_unknown(p))
		judge_reason(bench, "the ledger of %s does not show if tensors accumulate: record "
				    "it with --suballocations on and this version of gpuleak",
			     format_process(p, who));
	for (size_t i = 0; i < p->suballocation_count; i++)
		if (report_accumulates(&p->suballocations[i]))
			judge_entry(bench, input, p, &p->suballocations[i]);
}

void judge_accumulation(struct bench *bench, const struct judge_input *input)
{
	for (size_t i = 0; i < input->report->count; i++)
		judge_list(bench, input, input->report->processes[i]);
	if (bench->accumulating_places > JUDGE_PLACES_MAX)
		judge_reason(bench, "tensors accumulate at %zu more places",
			     bench->accumulating_places - JUDGE_PLACES_MAX);
}

void judge_mention_accumulation(struct bench *bench, bool passed)
{
	char kept[AMOUNT_MAX];

	if (!bench->accumulating_blocks)
		return;
	format_kept(bench->accumulating_bytes, bench->accumulating_blocks,
		    suballocation_word(bench->accumulating_cache), kept);
	(passed ? judge_reason : judge_note)(
		bench, "%s, which does not count (--gate-accumulation 1 counts it)", kept);
}
