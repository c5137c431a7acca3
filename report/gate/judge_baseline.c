/* SPDX-License-Identifier: MIT
 *
 * Applies the baseline: subtracts the known bytes and blocks of a fingerprint from its leaks.
 * Bytes and blocks count separately, because fewer but larger blocks are growth, too.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "report/describe/kinds.h"
#include "report/gate/baseline.h"
#include "report/symbols/fingerprint.h"
#include "report/gate/judge_internal.h"
#include "report/model/model.h"
#include "report/analyze/leak_totals.h"

static uint64_t beyond(uint64_t now, uint64_t known)
{
	return now > known ? now - known : 0;
}

struct allowance { /* the rest of a baseline entry */
	uint64_t bytes, blocks;
};

static void subtract_allowance(uint64_t *from, uint64_t *allowance)
{
	uint64_t taken = *from < *allowance ? *from : *allowance;

	*from -= taken;
	*allowance -= taken;
}

/* Returns what the part of CHARGE beyond the baseline keeps. */
static uint64_t keeps_beyond(const struct leak_total *charge)
{
	uint64_t keeps = charge->keeps, blocks = charge->largest->blocks;

	if (keeps == charge->largest->bytes)
		return charge->bytes;
	return charge->blocks == blocks ? keeps : keeps / blocks * charge->blocks;
}

/* Subtracts the bytes and blocks of each baseline entry from the charges with its fingerprint, in
 * the order of the charges, until nothing of the entry is left. */
static void excuse(struct bench *bench)
{
	const struct pattern_file *baseline = bench->input->baseline;
	struct allowance *left = calloc(baseline->count + 1, sizeof(*left));

	for (size_t i = 0; i < baseline->count; i++)
		left[i] = (struct allowance){ baseline->rules[i].bytes,
					      baseline->rules[i].blocks };
	for (size_t i = 0; i < bench->charges.count; i++) {
		struct leak_total *charge = &bench->charges.entries[i];
		const struct pattern_rule *known = baseline_find(baseline, charge->fingerprint);

		if (!known || charge->of & (TOTALS_OF_CACHES | TOTALS_OF_ACCUMULATIONS))
			continue;
		subtract_allowance(&charge->bytes, &left[known - baseline->rules].bytes);
		subtract_allowance(&charge->blocks, &left[known - baseline->rules].blocks);
		charge->keeps = keeps_beyond(charge);
	}
	free(left);
}

static void note_gone(struct bench *bench, const struct leak_totals *totals)
{
	const struct pattern_file *baseline = bench->input->baseline;
	size_t gone = 0, smaller = 0;

	EACH_ITEM(baseline->rules, baseline->count, entry) {
		const struct leak_total *now = leak_totals_find(totals, entry->fingerprint);

		smaller += now && (now->bytes < entry->bytes || now->blocks < entry->blocks);
		if (now || gone++ >= JUDGE_PLACES_MAX)
			continue;
		judgement_note(bench->judgement,
			       "%s:%u: known leak is gone: %s %s, %" PRIu64 " block%s, %s",
			       baseline->name, entry->line,
			       FINGERPRINT(entry->fingerprint, entry->partial),
			       EXACT_SIZE(entry->bytes), entry->blocks, plural(entry->blocks),
			       *entry->text ? entry->text : "of an unknown place");
	}
	if (gone || smaller)
		judgement_note(bench->judgement,
			       "%s: of %zu known leaks %zu are gone and %zu are smaller now: "
			       "--update-baseline writes the file anew",
			       baseline->name, baseline->count, gone, smaller);
}

void judge_baseline(struct bench *bench)
{
	const struct report *report = bench->input->report;
	struct leak_totals totals;

	if (!bench->input->baseline)
		return;
	excuse(bench);
	/* An incomplete report cannot prove that a known leak no longer occurs. */
	if (report->count == 0 || report->incomplete)
		return;
	totals = leak_totals_make_by(report, TOTALS_OF_LEAKS | TOTALS_OF_CONTEXT_ENDS |
						     TOTALS_OF_ACCUMULATIONS | TOTALS_OF_OBJECTS,
				     baseline_key, bench->input->baseline);
	note_gone(bench, &totals);
	leak_totals_finish(&totals);
}

static void add_growth_reason(struct bench *bench, const struct leak_total *now,
			      const struct pattern_rule *known)
{
	const struct report_site *site = now->largest->site;

	if (!known)
		judgement_reason(bench->judgement, "new leak: %s in %" PRIu64 " block%s (%s, %s) "
				 "at %s; fingerprint %s", EXACT_SIZE(now->bytes), now->blocks,
				 plural(now->blocks), kind_words(site->kind), site->api,
				 PLACE(site->stack),
				 FINGERPRINT(now->fingerprint, site->stack->partial));
	else
		judgement_reason(bench->judgement, "known leak grew by %s and %" PRIu64 " block%s: "
				 "%s in %" PRIu64 " block%s now, %s in %" PRIu64 " known "
				 "(%s, %s) at %s; fingerprint %s",
				 EXACT_SIZE(beyond(now->bytes, known->bytes)),
				 beyond(now->blocks, known->blocks),
				 plural(beyond(now->blocks, known->blocks)),
				 EXACT_SIZE(now->bytes), now->blocks, plural(now->blocks),
				 EXACT_SIZE(known->bytes), known->blocks, kind_words(site->kind),
				 site->api, PLACE(site->stack),
				 FINGERPRINT(now->fingerprint, site->stack->partial));
}

void judge_beyond_baseline(struct bench *bench)
{
	const struct pattern_file *baseline = bench->input->baseline;
	struct leak_totals totals;
	size_t named = 0;

	if (!baseline)
		return;
	totals = leak_totals_make_by(bench->input->report,
				     TOTALS_OF_LEAKS | (bench->input->count_context_ends
								? TOTALS_OF_CONTEXT_ENDS
								: 0),
				     baseline_key, baseline);
	leak_totals_sort_by_size(&totals);
	EACH_ITEM(totals.entries, totals.count, now) {
		const struct pattern_rule *known = baseline_find(baseline, now->fingerprint);

		if (known && now->bytes <= known->bytes && now->blocks <= known->blocks)
			continue;
		if (named++ < JUDGE_PLACES_MAX)
			add_growth_reason(bench, now, known);
	}
	if (named > JUDGE_PLACES_MAX)
		judgement_reason(bench->judgement, "%zu more leaks are new or grew: --format json "
				 "lists all leaks", named - JUDGE_PLACES_MAX);
	leak_totals_finish(&totals);
}
