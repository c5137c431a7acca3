/* SPDX-License-Identifier: MIT
 *
 * Applies the gate to a report. Each rule is a function that adds reasons for failure. A report
 * passes if there is no reason and at least one process. Rules with their own files (baseline,
 * budgets, policy) are in judge_*.c.
 */
#include "report/gate/judge.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/gate/judge_internal.h"
#include "report/model/model.h"
#include "report/subjects/subject.h"
#include "report/util/memory.h"
#include "report/util/number.h"

#define JUDGE_SUPPRESSED_MAX (2 * NUMBER_MAX + 32)

void judge_reason(struct bench *bench, const char *format, ...)
{
	struct judgement *j = bench->judgement;
	va_list args;

	va_start(args, format);
	judgement_add(&j->reasons, &j->reason_count, format, args);
	va_end(args);
}

void judge_note(struct bench *bench, const char *format, ...)
{
	struct judgement *j = bench->judgement;
	va_list args;

	va_start(args, format);
	judgement_add(&j->notes, &j->note_count, format, args);
	va_end(args);
}

/* The leaks that count against --max-leaked-bytes: all, except those that the baseline has or a
 * budget covers. */
struct rest {
	uint64_t bytes, blocks;
	const char *verb; /* "leaked" */
	const char *what; /* follows the verb: " beyond the baseline" */
};

static void too_much(struct bench *bench, const struct judge_input *input,
		     const struct rest *rest)
{
	char allowed[FORMAT_SIZE_MAX];

	judge_reason(bench, "%" PRIu64 " block%s, %s %s%s, %s allowed", rest->blocks,
		     plural(rest->blocks), EXACT_SIZE(rest->bytes), rest->verb,
		     rest->what,
		     input->max_leaked_bytes ? format_exact_size(input->max_leaked_bytes, allowed)
					     : "0");
}

/* Writes " (2 blocks, 2,000 bytes suppressed)", or "" if nothing is suppressed. */
static const char *suppressed(const struct report_summary *sum, char ret[JUDGE_SUPPRESSED_MAX])
{
	ret[0] = '\0';
	if (sum->suppressed_blocks)
		snprintf(ret, JUDGE_SUPPRESSED_MAX, " (%s block%s, %s byte%s suppressed)",
			 NUMBER(sum->suppressed_blocks),
			 plural(sum->suppressed_blocks),
			 NUMBER(sum->suppressed_bytes),
			 plural(sum->suppressed_bytes));
	return ret;
}

static void nothing_leaked(struct bench *bench, const struct judge_input *input,
			   const struct rest *rest)
{
	const struct report_summary *sum = &input->report->summary;
	char hidden[JUDGE_SUPPRESSED_MAX];

	if (sum->cached_blocks && !input->count_caches)
		judge_reason(bench,
			     "nothing leaked%s%s; caches hold %s in %" PRIu64
			     " block%s, which do not count (--gate-caches 1 counts them)",
			     rest->what, suppressed(sum, hidden),
			     EXACT_SIZE(sum->cached_bytes), sum->cached_blocks,
			     plural(sum->cached_blocks));
	else
		judge_reason(bench, "nothing leaked%s%s", rest->what, suppressed(sum, hidden));
}

/* Checks the leaks that remain after baseline and budgets against --max-leaked-bytes. */
static void leaked(struct bench *bench, const struct judge_input *input, const struct rest *rest)
{
	if (rest->blocks || rest->bytes)
		too_much(bench, input, rest);
	else
		nothing_leaked(bench, input, rest);
}

static void judge_errors(struct bench *bench, const struct report_summary *sum)
{
	if (sum->errors > 0)
		judge_reason(bench, "%" PRIu64 " invalid free%s", sum->errors, plural(sum->errors));
}

static void charge_list(struct charges *to, const struct report_leak *leaks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (leaks[i].pattern)
			continue;
		to->list = list_grow(to->list, to->count, sizeof(*to->list));
		to->list[to->count++] =
			(struct charge){ &leaks[i], report_leak_fingerprint(&leaks[i]),
					 leaks[i].bytes, leaks[i].blocks, false };
	}
}

static void charge_leaks(struct bench *bench, const struct report *report)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *p = report->processes[i];

		charge_list(&bench->memory, p->leaks, p->leak_count);
		charge_list(&bench->memory, p->cached, p->cached_count);
		charge_list(&bench->objects, p->objects, p->object_count);
	}
}

/* Computes the remaining leaks. Starts from the sums of the report and not from the lists, because
 * leaks that are only in the sums must count, too. */
static struct rest find_rest(const struct bench *bench, const struct judge_input *input)
{
	const struct report_summary *sum = &input->report->summary;
	struct rest rest = { sum->leaked_bytes, sum->leaked_blocks, "leaked", "" };

	if (input->count_caches && sum->cached_blocks) {
		rest.bytes = add_bounded(rest.bytes, sum->cached_bytes);
		rest.blocks = add_bounded(rest.blocks, sum->cached_blocks);
		rest.verb = sum->leaked_blocks ? "leaked or held by caches" : "held by caches";
	}
	for (size_t i = 0; i < bench->memory.count; i++) {
		const struct charge *charge = &bench->memory.list[i];
		uint64_t bytes = charge->leak->bytes - (charge->covered ? 0 : charge->bytes);
		uint64_t blocks = charge->leak->blocks - (charge->covered ? 0 : charge->blocks);

		if (charge->leak->cache && !input->count_caches)
			continue;
		rest.bytes -= bytes < rest.bytes ? bytes : rest.bytes;
		rest.blocks -= blocks < rest.blocks ? blocks : rest.blocks;
	}
	rest.what = input->baseline && input->budgets ? " beyond the baseline and the budgets"
		    : input->baseline		      ? " beyond the baseline"
		    : input->budgets		      ? " beyond the budgets"
						      : "";
	return rest;
}

static struct rest judge_leaks(struct bench *bench, const struct judge_input *input)
{
	size_t before = bench->judgement->reason_count;
	struct rest rest;

	charge_leaks(bench, input->report);
	judge_baseline(bench, input);
	judge_budgets(bench, input);
	rest = find_rest(bench, input);
	if (input->max_leaked_bytes == 0 ? rest.blocks > 0 || rest.bytes > 0
					 : rest.bytes > input->max_leaked_bytes)
		leaked(bench, input, &rest);
	if (bench->judgement->reason_count > before)
		judge_beyond_baseline(bench, input);
	judge_objects(bench, input);
	return rest;
}

static void judge_process(struct bench *bench, const struct judge_input *input,
			  const struct report_process *p)
{
	char who[FORMAT_PLACE_MAX];

	format_process(p, who);
	subjects_judge(bench->judgement, input, p);
	if (p->ended == REPORT_RUNNING && !input->leaks_unwanted)
		judge_reason(bench, "%s still runs: its blocks may yet be freed", who);
	if (!p->incomplete)
		return;
	if (p->note_count == 0)
		judge_reason(bench, "%s was not recorded completely", who);
	for (size_t i = 0; i < p->note_count; i++)
		judge_reason(bench, "%s was not recorded completely: %s", who, p->notes[i]);
}

/* Adds reasons about the whole report. Does not repeat problems that the caller already named. */
static void judge_whole(struct bench *bench, const struct judge_input *input)
{
	const struct report *report = input->report;
	bool is_told = input->trouble_count > 0;

	for (size_t i = 0; i < input->trouble_count; i++)
		judge_reason(bench, "%s", input->troubles[i]);
	for (size_t i = 0; i < report->count; i++) {
		judge_process(bench, input, report->processes[i]);
		is_told |= report->processes[i]->incomplete;
	}
	if (report->incomplete && !is_told)
		judge_reason(bench, "a part of the recording could not be read: the notes of the "
				    "report name the part");
}

void judge(const struct judge_input *input, struct judgement *ret)
{
	struct bench bench = { .judgement = ret };
	struct rest rest;

	*ret = (struct judgement){ .verdict = JUDGE_FAILED };
	judge_errors(&bench, &input->report->summary);
	if (!input->leaks_unwanted)
		rest = judge_leaks(&bench, input);
	judge_sites(&bench, input);
	judge_accumulation(&bench, input);
	judge_whole(&bench, input);
	if (ret->reason_count > 0) {
		judge_mention_accumulation(&bench, false);
	} else if (input->report->count == 0) {
		ret->verdict = JUDGE_NOTHING;
		judge_reason(&bench, "no ledger was found: no GPU call was seen");
	} else {
		ret->verdict = JUDGE_CLEAN;
		if (!input->leaks_unwanted)
			leaked(&bench, input, &rest);
		if (input->growth_wanted)
			judge_reason(&bench, "nothing keeps growing beyond what is allowed");
		judge_mention_accumulation(&bench, true);
	}
	free(bench.memory.list);
	free(bench.objects.list);
}
