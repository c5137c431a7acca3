/* SPDX-License-Identifier: MIT
 *
 * Builds the list of findings. All formats with single results use it, so that they have the
 * same order, words and names.
 */
#include "report/subjects/findings.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/analyze/ranks.h"
#include "report/describe/format_place.h"
#include "report/util/escape.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/model/model_suballocations.h"
#include "report/util/memory.h"
#include "report/util/number.h"
#include "report/describe/describe_stack.h"
#include "report/subjects/subject_words.h"

/* Adds FINDING, which SITE identifies. */
static void add(struct findings *findings, struct finding finding, const struct report_site *site)
{
	finding.fingerprint = report_site_fingerprint(site);
	finding.fingerprint2 = report_site_fingerprint2(site);
	finding.order = findings->count;
	findings->counts[finding.class]++;
	*LIST_ADD(findings->all, findings->count) = finding;
}

/* Adds LEAKS to the findings. OF is a finding of their process. */
static void add_leaks(struct findings *findings, struct finding of, enum finding_class class,
		      const struct report_leak *leaks, size_t count)
{
	of.class = class;
	for (size_t i = 0; i < count; i++) {
		of.leak = &leaks[i];
		of.blocks = leaks[i].blocks;
		of.bytes = leaks[i].bytes;
		of.keeps = class == FINDING_LEAK ? leaks[i].keeps_bytes : of.bytes;
		of.freed = class == FINDING_LEAK ? leaks[i].freed_blocks : 0;
		of.stack = leaks[i].site->stack;
		add(findings, of, leaks[i].site);
	}
}

static void add_accumulating(struct findings *findings, struct finding of)
{
	for (size_t i = 0; i < of.process->suballocation_count; i++) {
		of.site = &of.process->suballocations[i];
		of.class = of.site->live.pattern ? FINDING_SUPPRESSED : FINDING_ACCUMULATING;
		of.leak = &of.site->live;
		of.blocks = of.site->kept_blocks;
		of.bytes = of.keeps = of.site->kept_bytes;
		of.stack = of.leak->site->stack;
		if (of.site->trend == TREND_ACCUMULATING)
			add(findings, of, of.leak->site);
	}
}

/* What a cache had when its context ended is no finding. */
static void add_context_ends(struct findings *findings, struct finding of)
{
	for (size_t i = 0; i < of.process->context_end_count; i++) {
		of.end = &of.process->context_ends[i];
		add_leaks(findings, of,
			  of.end->lost.pattern ? FINDING_SUPPRESSED : FINDING_CONTEXT_END,
			  &of.end->lost, of.end->lost.cache ? 0 : 1);
	}
}

static void add_errors(struct findings *findings, struct finding of)
{
	of.class = FINDING_ERROR;
	for (of.errors = error_groups(of.process, &findings->arena); of.errors;
	     of.errors = of.errors->next) {
		const struct report_error *error = of.errors->error;

		of.blocks = of.errors->count;
		of.stack = error->stack;
		add(findings, of,
		    &(struct report_site){ error->api, error->type, .stack = of.stack });
	}
}

static void add_process(struct findings *findings, const struct report_process *p, size_t index)
{
	struct finding of = { .process = p, .process_index = index };

	add_errors(findings, of);
	add_leaks(findings, of, FINDING_LEAK, p->leaks, p->leak_count);
	add_leaks(findings, of, FINDING_CACHED, p->cached, p->cached_count);
	add_leaks(findings, of, FINDING_KEPT, p->kept, p->kept_count);
	add_leaks(findings, of, FINDING_SUPPRESSED, p->suppressed, p->suppressed_count);
	add_context_ends(findings, of);
	add_accumulating(findings, of);
	of.refusal = report_final_out_of_memory(p);
	if (of.refusal) {
		of.stack = of.refusal->site->stack;
		add(findings, of, &(struct report_site){ of.refusal->site->api, "out-of-memory",
							 .stack = of.stack });
	}
}

static int compare(const void *left, const void *right)
{
	const struct finding *a = left, *b = right;
	bool by_size = a->class >= FINDING_LEAK;
	int r = compare_numbers(a->class, b->class);

	return r ?: (by_size ? compare_numbers(b->keeps, a->keeps) : 0)
	       ?: (by_size ? compare_numbers(b->blocks, a->blocks) : 0)
	       ?: compare_numbers(a->order, b->order);
}

/* Numbers the findings with one fingerprint, from 1 on. */
static void number(struct findings *findings)
{
	struct table table = { 0 };

	for (size_t i = 0; i < findings->count; i++) {
		struct finding *finding = &findings->all[i];
		struct { uint64_t fingerprint; unsigned int count; } *known =
			table_intern(&findings->arena, &table, &finding->fingerprint,
				     sizeof(finding->fingerprint), sizeof(*known));

		finding->ordinal = ++known->count;
	}
}

/* ---- parts ---- */

/* A line of the application in one process, or what one variable keeps. */
struct part_group {
	/* class, process, line or variable, and what else parts have in common: the call that ended
	 * their context, their cache, or their mapping; their range. What has a history stands
	 * alone. */
	uint64_t key[5];
	uint64_t keeper; /* of a line: a number for the variable that keeps most, or 0 */
	struct finding *finding; /* the largest part */
	struct finding **end; /* where the next part goes */
};

static struct part_group *group_of(struct findings *findings, struct table *table,
				   const struct finding *finding, uint64_t number)
{
	const struct report_leak *leak = finding->leak;
	uintptr_t other = finding->end	  ? (uintptr_t)finding->end->ended.stack
			  : finding->site ? (uintptr_t)leak->cache
			  : leak->history ? (uintptr_t)leak
					  : (uintptr_t)leak->mapping;
	uint64_t key[5] = { (uint64_t)finding->class, finding->process_index, number, other,
			    (uintptr_t)leak->site->range };

	return table_intern(&findings->arena, table, key, sizeof(key), sizeof(struct part_group));
}

/* Returns the group of the line of FINDING. Returns NULL if its class is not merged. */
static struct part_group *line_of(struct findings *findings, struct table *table,
				  const struct finding *finding)
{
	if (finding->class < FINDING_LEAK || finding->class > FINDING_ACCUMULATING)
		return NULL;
	return group_of(findings, table, finding, report_site_line(finding->leak->site));
}

static uint64_t keeper_of(const struct report_keepers *keepers)
{
	const char *text = keepers && keepers->list[0].blocks ? keepers->list[0].text : "";

	return *text ? hash_bytes(text, keeper_variable_length(text), 1) : 0;
}

static void add_part(struct findings *findings, struct part_group *to, const struct finding *part)
{
	struct finding *copy = arena_alloc(&findings->arena, sizeof(*copy));

	*copy = *part;
	*to->end = copy;
	to->end = &copy->next;
	to->finding->bytes = add_bounded(to->finding->bytes, part->bytes);
	to->finding->keeps = add_bounded(to->finding->keeps, part->keeps);
	to->finding->blocks = add_bounded(to->finding->blocks, part->blocks);
	to->finding->freed = add_bounded(to->finding->freed, part->freed);
	findings->counts[part->class]--;
}

/* Merges findings of one line, and of lines with the same keeper. The largest come first. */
static void merge(struct findings *findings)
{
	struct table lines = { 0 };
	struct part_group *group;
	size_t kept = 0;

	for (size_t i = 0; i < findings->count; i++) {
		group = line_of(findings, &lines, &findings->all[i]);
		if (group && !group->keeper)
			group->keeper = keeper_of(findings->all[i].leak->keepers);
	}
	for (size_t i = 0; i < findings->count; i++) {
		group = line_of(findings, &lines, &findings->all[i]);
		if (group && group->keeper)
			group = group_of(findings, &lines, &findings->all[i], group->keeper);
		if (group && group->finding) {
			add_part(findings, group, &findings->all[i]);
			continue;
		}
		findings->all[kept] = findings->all[i];
		if (group) {
			group->finding = &findings->all[kept];
			group->end = &group->finding->parts;
		}
		kept++;
	}
	findings->count = kept;
	SORT(findings->all, findings->count, compare);
}

bool finding_is_shared(const struct finding *finding, const struct ranks *ranks)
{
	if (!ranks || !ranks_shares(ranks, finding->leak))
		return false;
	for (const struct finding *part = finding->parts; part; part = part->next)
		if (!ranks_shares(ranks, part->leak))
			return false;
	return true;
}

static bool is_same_frame(const struct report_frame *a, const struct report_frame *b)
{
	return a->line == b->line && is_same_text(a->function, b->function) &&
	       (a->line || a->offset == b->offset);
}

/* Returns the first frame of PART, from its line on outwards, that the stack OF does not have. If
 * it has all of them, returns the frame that the line called. */
static const struct report_frame *different_frame(const struct report_stack *of,
						  const struct report_stack *part)
{
	const struct report_frame *a = report_stack_culprit(of), *b = report_stack_culprit(part);
	const struct report_frame *line = b;

	while (a && b && a < of->frames + of->count && b < part->frames + part->count)
		if (!is_same_frame(a++, b++))
			return b - 1;
	return line > part->frames ? line - 1 : line;
}

void finding_blocks(FILE *out, const struct finding *finding)
{
	if (finding->freed)
		fprintf(out, "%s of ", NUMBER(finding->blocks));
	fputs(COUNT(add_bounded(finding->blocks, finding->freed), "block"), out);
}

#define PARTS_SHOWN 5

void finding_parts(FILE *out, const struct finding *finding, bool whole)
{
	size_t shown = 0;

	for (const struct finding *part = finding->parts; part; part = part->next) {
		if (shown++ >= PARTS_SHOWN && !whole)
			continue;
		fprintf(out, "  Of this %s in %s by another stack", SIZE(part->bytes),
			COUNT(part->blocks, describe_unit(part->leak)));
		if (part->stack->count) {
			fputs(", with ", out);
			describe_frame(out, different_frame(finding->stack, part->stack), whole);
		}
		describe_refused_free(out, "; a", part->leak->refused, "", whole);
		fputs(whole ? ":\n" : "\n", out);
		if (whole)
			describe_stack(out, part->stack, whole);
	}
	if (shown > PARTS_SHOWN && !whole)
		fprintf(out, "  and by %s; --verbose 1 prints them\n",
			COUNT(shown - PARTS_SHOWN, "more stack"));
}

/* ---- what is missing ---- */

const char *findings_nothing(const struct report *report)
{
	return report->incomplete ? "nothing was recorded"
				  : "nothing was recorded: no GPU memory call was seen";
}

static void add_gap(struct findings *findings, const struct report_process *process,
		    const char *text)
{
	*LIST_ADD(findings->gaps, findings->gap_count) = (struct finding_gap){ process, text };
}

static void add_process_gaps(struct findings *findings, const struct report_process *process)
{
	uint64_t lost = process->summary.errors - process->error_count;

	if (process->ended == REPORT_RUNNING && !process->attached)
		add_gap(findings, process, "the process still runs: its blocks may yet be freed");
	if (process->summary.errors > process->error_count)
		add_gap(findings, process,
			arena_printf(&findings->arena,
				     "%s more errors were counted but not recorded",
				     NUMBER(lost)));
	for (size_t i = 0; process->incomplete && i < process->note_count; i++)
		add_gap(findings, process, process->notes[i]);
	if (process->incomplete && process->note_count == 0)
		add_gap(findings, process, "the process was not recorded completely");
}

static void add_gaps(struct findings *findings, const struct report *report)
{
	bool is_told = false;

	for (size_t i = 0; i < report->count; i++) {
		add_process_gaps(findings, report->processes[i]);
		is_told |= report->processes[i]->incomplete;
	}
	if (report->count == 0)
		add_gap(findings, NULL, findings_nothing(report));
	for (size_t i = 0; report->incomplete && i < report->note_count; i++)
		add_gap(findings, NULL, report->notes[i]);
	if (report->incomplete && !is_told && report->note_count == 0)
		add_gap(findings, NULL, "a part of the recording could not be read");
}

static struct findings build(const struct report *report, bool merged)
{
	struct findings ret = { 0 };

	for (size_t i = 0; i < report->count; i++)
		add_process(&ret, report->processes[i], i);
	ret.all = list_grow(ret.all, ret.count, sizeof(*ret.all)); /* not NULL without findings */
	SORT(ret.all, ret.count, compare);
	if (merged)
		merge(&ret);
	number(&ret);
	add_gaps(&ret, report);
	return ret;
}

struct findings findings_build(const struct report *report)
{
	return build(report, false);
}

struct findings findings_build_merged(const struct report *report)
{
	return build(report, true);
}

void findings_finish(struct findings *findings)
{
	free(findings->all);
	free(findings->gaps);
	arena_finish(&findings->arena);
	*findings = (struct findings){ 0 };
}

size_t findings_first(const struct findings *findings, enum finding_class class)
{
	size_t first = 0;

	for (int before = 0; before < (int)class; before++)
		first += findings->counts[before];
	return first;
}

const struct finding *findings_next(const struct findings *findings,
				    const struct report_process *process,
				    enum finding_class class, const struct finding *after)
{
	const struct finding *at = after ? after + 1
					 : findings->all + findings_first(findings, class);

	for (; at < findings->all + findings->count && at->class == class; at++)
		if (at->process == process)
			return at;
	return NULL;
}

char *finding_name(const struct finding *finding, char ret[FINDING_NAME_MAX])
{
	report_fingerprint_text(finding->fingerprint, finding->stack->partial, ret);
	if (finding->ordinal > 1)
		snprintf(ret + strlen(ret), FINDING_NAME_MAX - strlen(ret), "-%u",
			 finding->ordinal);
	return ret;
}

const char *finding_rule(const struct finding *finding)
{
	return finding->refusal			     ? "out-of-memory"
	       : finding->errors		     ? finding->errors->error->type
	       : finding->class == FINDING_CACHED ? "cache"
	       : finding->class == FINDING_KEPT     ? "kept"
	       : finding->site			     ? "accumulation"
	       : finding->end			     ? "ended-with-context"
						     : "leak";
}

const struct report_frame *finding_frame(const struct finding *finding)
{
	const struct report_stack *stack = finding->stack;
	const struct report_frame *frame = report_stack_culprit(stack);

	for (; frame && frame < stack->frames + stack->count; frame++)
		if (frame->file)
			return frame;
	return NULL;
}

void finding_title(FILE *out, const struct finding *finding)
{
	if (finding->refusal) {
		fputs("GPU out of memory", out);
		if (out_of_memory_wanted(finding->refusal))
			fprintf(out, ": %s wanted", SIZE(out_of_memory_wanted(finding->refusal)));
		return;
	}
	if (finding->class == FINDING_ERROR) {
		fputs("GPU memory: ", out);
		describe_error_words(out, finding->errors->error, false);
		return;
	}
	fprintf(out, "GPU memory %s%s: %s",
		finding->class == FINDING_CACHED ? "held by a cache"
		: finding->class == FINDING_KEPT ? "kept"
		: finding->site			 ? "accumulates"
		: finding->end			 ? "ended with its context"
						 : "leak",
		finding->class == FINDING_SUPPRESSED ? ", suppressed" : "",
		SIZE(finding->bytes));
}

void finding_trend(FILE *out, const struct finding *finding)
{
	struct report_suballocations all = *finding->site;

	all.kept_blocks = finding->blocks;
	for (const struct finding *part = finding->parts; part; part = part->next) {
		all.allocated_blocks = add_bounded(all.allocated_blocks,
						   part->site->allocated_blocks);
		all.kept_per_second += part->site->kept_per_second;
	}
	describe_trend(out, finding->process, &all);
}

static void print_accumulating(FILE *out, const struct finding *finding)
{
	describe_suballocations(out, finding->leak->cache, finding->bytes, finding->blocks);
	fputs(" (", out);
	describe_pool(out, finding->leak, finding->leak->site->device);
	fputs(") accumulate: ", out);
	finding_trend(out, finding);
	fputs(", allocated at", out);
}

static void print_leak(FILE *out, const struct finding *finding)
{
	const struct report_leak *leak = finding->leak;

	if (finding->site) {
		print_accumulating(out, finding);
		return;
	}
	finding_blocks(out, finding);
	fprintf(out, ", %s", EXACT_SIZE(finding->bytes));
	describe_source(out, leak->site->kind, leak->site->api, finding->leak->site->device);
	describe_range(out, leak->site);
	fputc(' ', out);
	if (finding->end)
		fputs("never freed, ended with its context", out);
	else
		describe_missing_call(out, leak, finding->process->ended == REPORT_RUNNING);
	if (leak->mapping) {
		fputs(", mapped at ", out);
		describe_place_and_caller(out, describe_made_at(leak), false);
	}
	fprintf(out, ", %s at", leak->mapping ? "allocated" : describe_made(leak));
}

void finding_exemption(FILE *out, const struct finding *finding)
{
	if (finding->class == FINDING_CACHED) {
		eprintf(out, "held by %s", finding->leak->cache ? finding->leak->cache : "a cache");
		describe_division(out, finding->leak, ": ");
	} else if (finding->class == FINDING_SUPPRESSED) {
		eprintf(out, "suppressed by leak:%s",
			finding->leak->pattern ? finding->leak->pattern : "?");
	} else if (finding->class == FINDING_KEPT) {
		fputs("gpuleak attached while the process ran, so leaks are not judged", out);
	}
}

static void print_refusal(FILE *out, const struct finding *finding)
{
	fputs("out of memory: ", out);
	describe_out_of_memory(out, finding->process, finding->refusal, false);
}

void finding_message(FILE *out, const struct finding *finding, bool name_process)
{
	if (finding->refusal) {
		print_refusal(out, finding);
	} else if (finding->leak) {
		print_leak(out, finding);
		fputc(' ', out);
		describe_place_and_caller(out, finding->stack, false);
		describe_refused_free(out, "; a", finding->leak->refused, "", false);
		describe_parent(out, "; ", finding->leak, finding->keeps, false);
		if (finding->end && finding->end->ended.api) {
			fputs("; the context ended at ", out);
			describe_place_and_caller(out, finding->end->ended.stack, false);
		}
	} else {
		describe_error_briefly(out, finding->errors->error, false);
		if (finding->errors->count > 1)
			fprintf(out, " (%s times)", NUMBER(finding->errors->count));
		fputs(": ", out);
		describe_error_cause(out, finding->errors->error);
	}
	if (name_process) {
		fputs(", in ", out);
		describe_process(out, finding->process);
	}
	if (finding->class >= FINDING_CACHED) {
		fputs("; ", out);
		finding_exemption(out, finding);
	}
}

void finding_details(FILE *out, const struct finding *finding)
{
	if (finding->refusal) {
		print_refusal(out, finding);
		fputs("\nWanted at:\n", out);
		describe_stack(out, finding->stack, false);
		return;
	}
	if (!finding->leak) {
		describe_error(out, finding->errors, false);
		return;
	}
	print_leak(out, finding);
	fputs(":\n", out);
	describe_stack(out, finding->stack, false);
	if (finding->leak->mapping)
		describe_mapping(out, finding->leak, false);
	describe_refused_free(out, "  A", finding->leak->refused, "\n", false);
	if (finding->end)
		describe_context_end(out, finding->end, false);
	if (finding->leak->history)
		describe_history(out, finding->leak->history, finding->leak->blocks, false);
	finding_parts(out, finding, false);
}
