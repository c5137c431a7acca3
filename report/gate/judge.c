/* SPDX-License-Identifier: MIT
 *
 * Applies the gate to a report. Each rule is a function that adds reasons for failure. A report
 * passes if there is no reason and at least one process. Rules with their own files (baseline,
 * budgets, policy) are in judge_*.c.
 */
#include "report/gate/judge.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "report/gate/baseline.h"
#include "report/gate/judge_internal.h"
#include "report/model/model.h"
#include "report/subjects/subject.h"
#include "report/util/number.h"

#define JUDGE_SUPPRESSED_MAX (2 * NUMBER_MAX + 32)

/* The leaks that count against --max-leaked-bytes: all, except those that the baseline has or a
 * budget covers. */
struct rest {
	uint64_t bytes, blocks;
	const char *verb; /* "leaked" */
	const char *what; /* follows the verb: " beyond the baseline" */
};

static void too_much(struct bench *bench, const struct rest *rest)
{
	judgement_reason(bench->judgement, "%" PRIu64 " block%s, %s %s%s, %s allowed", rest->blocks,
			 plural(rest->blocks), EXACT_SIZE(rest->bytes), rest->verb, rest->what,
			 ALLOWED(bench->input->max_leaked_bytes));
}

/* Writes " (2 blocks, 2,000 bytes suppressed)", or "" if nothing is suppressed. */
static const char *suppressed(const struct report_summary *sum, char ret[JUDGE_SUPPRESSED_MAX])
{
	ret[0] = '\0';
	if (sum->suppressed_blocks)
		snprintf(ret, JUDGE_SUPPRESSED_MAX, " (%s block%s, %s byte%s suppressed)",
			 NUMBER(sum->suppressed_blocks), plural(sum->suppressed_blocks),
			 NUMBER(sum->suppressed_bytes), plural(sum->suppressed_bytes));
	return ret;
}

static void nothing_leaked(struct bench *bench, const struct rest *rest)
{
	const struct report_summary *sum = &bench->input->report->summary;
	const char *hidden = suppressed(sum, (char[JUDGE_SUPPRESSED_MAX]){ 0 });

	if (sum->cached_blocks && !bench->input->count_caches)
		judgement_reason(bench->judgement,
				 "nothing leaked%s%s; caches hold %s in %" PRIu64
				 " block%s, which do not count (--gate-caches 1 counts them)",
				 rest->what, hidden, EXACT_SIZE(sum->cached_bytes),
				 sum->cached_blocks, plural(sum->cached_blocks));
	else
		judgement_reason(bench->judgement, "nothing leaked%s%s", rest->what, hidden);
}

/* Checks the leaks that remain after baseline and budgets against --max-leaked-bytes. */
static void leaked(struct bench *bench, const struct rest *rest)
{
	if (rest->blocks || rest->bytes)
		too_much(bench, rest);
	else
		nothing_leaked(bench, rest);
}

static void judge_errors(struct bench *bench)
{
	uint64_t accesses = report_accesses(bench->input->report);
	uint64_t frees = less(bench->input->report->summary.errors, accesses);

	if (frees > 0)
		judgement_reason(bench->judgement, "%" PRIu64 " invalid free%s", frees,
				 plural(frees));
	if (accesses > 0)
		judgement_reason(bench->judgement, "%" PRIu64 " access%s outside a block", accesses,
				 accesses == 1 ? "" : "es");
}

static const char *what_covers(const struct judge_input *input)
{
	if (!input->baseline)
		return input->budgets ? " beyond the budgets" : "";
	return input->budgets ? " beyond the baseline and the budgets" : " beyond the baseline";
}

/* Computes the remaining leaks. Starts from the sums of the report and not from the lists, because
 * leaks that are only in the sums must count, too. */
static struct rest find_rest(const struct bench *bench)
{
	const struct judge_input *input = bench->input;
	const struct report_summary *sum = &input->report->summary;
	struct rest rest = { sum->keeps_bytes, sum->leaked_blocks, "leaked", what_covers(input) };

	if (input->count_caches && sum->cached_blocks) {
		rest.bytes = add_bounded(rest.bytes, sum->cached_bytes);
		rest.blocks = add_bounded(rest.blocks, sum->cached_blocks);
		rest.verb = sum->leaked_blocks ? "leaked or held by caches" : "held by caches";
	}
	for (size_t i = 0; i < bench->charges.count; i++) {
		const struct leak_total *charge = &bench->charges.entries[i];
		const struct report_leak *leak = charge->largest;
		uint64_t bytes = charge->of == TOTALS_OF_LEAKS ? leak->keeps_bytes : leak->bytes;
		uint64_t blocks = leak->blocks - (bench->covered[i] ? 0 : charge->blocks);

		if (charge->of != TOTALS_OF_LEAKS &&
		    !(charge->of == TOTALS_OF_CACHES && input->count_caches))
			continue;
		bytes -= bench->covered[i] ? 0 : charge->keeps;
		rest.bytes -= bytes < rest.bytes ? bytes : rest.bytes;
		rest.blocks -= blocks < rest.blocks ? blocks : rest.blocks;
	}
	return rest;
}

static struct rest judge_leaks(struct bench *bench)
{
	uint64_t limit = bench->input->max_leaked_bytes;
	size_t before = bench->judgement->reason_count;
	struct rest rest;

	judge_baseline(bench);
	judge_budgets(bench);
	rest = find_rest(bench);
	if (rest.bytes > limit || (limit == 0 && rest.blocks > 0))
		leaked(bench, &rest);
	judge_context_ends(bench);
	if (bench->judgement->reason_count > before)
		judge_beyond_baseline(bench);
	judge_objects(bench);
	return rest;
}

static void judge_process(struct bench *bench, const struct report_process *p)
{
	subjects_judge(bench->judgement, bench->input, p);
	if (p->attached && p->refused > p->recovered)
		judgement_reason(bench->judgement, "%s ran out of memory: %" PRIu64 " requests",
				 PROCESS(p), p->refused - p->recovered);
	if (p->ended == REPORT_RUNNING && !p->attached && !bench->input->leaks_unwanted)
		judgement_reason(bench->judgement, "%s still runs: its blocks may yet be freed",
				 PROCESS(p));
	if (p->ended == REPORT_SIGNAL)
		judgement_note(bench->judgement, "%s was killed by signal %d, which the gate does "
			       "not judge", PROCESS(p), p->status);
	if (p->incomplete && p->note_count == 0)
		judgement_reason(bench->judgement, "%s was not recorded completely", PROCESS(p));
	for (size_t i = 0; p->incomplete && i < p->note_count; i++)
		judgement_reason(bench->judgement, "%s was not recorded completely: %s", PROCESS(p),
				 p->notes[i]);
}

/* Adds reasons about the whole report. Does not repeat problems that the caller already named. */
static void judge_whole(struct bench *bench)
{
	const struct judge_input *input = bench->input;
	const struct report *report = input->report;
	bool is_told = input->trouble_count > 0;

	for (size_t i = 0; i < input->trouble_count; i++)
		judgement_reason(bench->judgement, "%s", input->troubles[i]);
	for (size_t i = 0; i < report->count; i++) {
		judge_process(bench, report->processes[i]);
		is_told |= report->processes[i]->incomplete;
	}
	if (report->incomplete && !is_told)
		judgement_reason(bench->judgement, "a part of the recording could not be read: the "
				 "notes of the report name the part");
}

/* Adds the reasons for which a gate PASSED that found nothing wrong. */
static void passed(struct bench *bench, const struct rest *rest)
{
	const struct judge_input *input = bench->input;
	size_t attached = 0;

	for (size_t i = 0; i < input->report->count; i++)
		attached += input->report->processes[i]->attached;
	if (!input->leaks_unwanted && attached < input->report->count)
		leaked(bench, rest);
	if (attached)
		judgement_reason(bench->judgement, "nothing grows, accumulates or failed; leaks "
				 "not judged, because gpuleak attached while the process ran");
	judge_mention_context_ends(bench);
	if (input->growth_wanted)
		judgement_reason(bench->judgement,
				 "nothing keeps growing beyond what is allowed");
	judge_mention_accumulation(bench, true);
}

void judge(const struct judge_input *input, struct judgement *ret)
{
	struct bench bench = { .input = input, .judgement = ret };
	struct rest rest = { 0 };

	*ret = (struct judgement){ .verdict = JUDGE_FAILED };
	bench.charges = leak_totals_list_by(
		input->report, TOTALS_OF_LEAKS | TOTALS_OF_CACHES | TOTALS_OF_OBJECTS |
			TOTALS_OF_ACCUMULATIONS |
			(input->count_context_ends ? TOTALS_OF_CONTEXT_ENDS : 0),
		baseline_key, input->baseline);
	bench.covered = calloc(bench.charges.count + 1, sizeof(*bench.covered));
	judge_errors(&bench);
	if (!input->leaks_unwanted)
		rest = judge_leaks(&bench);
	judge_only_at(&bench);
	judge_accumulation(&bench);
	judge_whole(&bench);
	if (ret->reason_count > 0) {
		judge_mention_accumulation(&bench, false);
	} else if (input->report->count == 0) {
		ret->verdict = JUDGE_NOTHING;
		judgement_reason(ret, "no ledger was found: no GPU call was seen");
	} else if (report_was_attached(input->report) &&
		   !input->report->summary.allocated_blocks) {
		ret->verdict = JUDGE_NOTHING;
		judgement_reason(ret, "nothing was allocated while gpuleak was attached");
	} else {
		ret->verdict = JUDGE_CLEAN;
		passed(&bench, &rest);
	}
	leak_totals_finish(&bench.charges);
	free(bench.covered);
}
