/* SPDX-License-Identifier: MIT
 *
 * Prints the summary line, then problems to fix, then notes. The first line names the largest
 * leak and the application's line.
 */
#include "report/format/text/print_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/escape.h"
#include "report/format/text/gen_suppressions.h"
#include "report/model/model.h"
#include "report/model/model_suballocations.h"
#include "report/util/number.h"
#include "report/analyze/accumulations.h"
#include "report/analyze/ranks.h"
#include "report/suppress/suppress.h"
#include "report/format/text/text_caches.h"
#include "report/describe/describe_coverage.h"
#include "report/format/text/text_debuginfo.h"
#include "report/describe/describe_error.h"
#include "report/describe/findings.h"
#include "report/format/text/text_growth.h"
#include "report/format/text/text_driver_memory.h"
#include "report/describe/describe_history.h"
#include "report/format/text/text_ipc.h"
#include "report/format/text/text_named_steps.h"
#include "report/format/text/text_no_gpu.h"
#include "report/format/text/text_objects.h"
#include "report/format/text/text_out_of_memory.h"
#include "report/format/text/text_peak.h"
#include "report/format/text/text_pool.h"
#include "report/format/text/text_ranks.h"
#include "report/format/text/text_suballocations.h"
#include "report/describe/describe_deferred.h"
#include "report/describe/describe_peak.h"
#include "report/describe/describe_stack.h"
#include "report/describe/describe_keepers.h"
#include "report/describe/describe_suballocations.h"

#define LEAKS_MAX 1000 /* JSON has all leaks */

/* The data for a first line, about one process or about all processes. */
struct headline {
	const struct report_summary *summary;
	const struct report_process *worst_in, *error_in; /* NULL: no leak, no error */
	/* first process with released blocks that a user event holds (see describe_stuck()), or
	 * NULL */
	const struct report_process *stuck_in;
	size_t leaks;
	size_t processes, leaking;
	const struct report_process *only; /* the process, if there is only one; or NULL */
	struct accumulations accumulations;
	const struct ranks *ranks; /* the parallel job of the processes, or NULL */
	struct report_process *const *all;
	bool running, incomplete;
};

static void print_subject(FILE *out, const struct headline *line)
{
	if (line->only)
		describe_process(out, line->only);
	else if (line->ranks && line->ranks->all && line->leaks)
		fprintf(out, "%zu of %zu ranks", line->ranks->leaking, line->ranks->count);
	else if (line->ranks && line->ranks->all)
		fprintf(out, "%zu ranks", line->ranks->count);
	else if (line->leaks && line->leaking != line->processes)
		fprintf(out, "%zu of %zu processes", line->leaking, line->processes);
	else
		fprintf(out, "%zu processes", line->processes);
}

static void print_fate(FILE *out, uint64_t blocks, const char *what)
{
	char number[NUMBER_MAX];

	if (blocks)
		fprintf(out, ", %s %s", format_number(blocks, number), what);
}

/* Prints how many blocks of COUNT PROCESSES were freed, and why the others are not leaks. */
static void print_fates(FILE *out, const struct report_summary *sum,
			struct report_process *const *processes, size_t count)
{
	uint64_t live = add_bounded(sum->leaked_blocks,
				    add_bounded(sum->suppressed_blocks, sum->cached_blocks));
	uint64_t known = add_bounded(add_bounded(sum->freed_blocks, live),
				     add_bounded(sum->with_context_blocks, sum->deferred_blocks));
	char number[NUMBER_MAX];

	known = add_bounded(known, add_bounded(sum->left_out_blocks, sum->younger_blocks));
	if (sum->freed_blocks == sum->allocated_blocks)
		fputs("all freed", out);
	else
		fprintf(out, "%s freed", format_number(sum->freed_blocks, number));
	if (sum->late_blocks)
		fprintf(out, " (%s of them after the driver had begun to shut down)",
			format_number(sum->late_blocks, number));
	print_fate(out, sum->with_context_blocks, "released with their context");
	print_fate(out, sum->deferred_blocks, "released but not freed");
	print_fate(out, sum->younger_blocks, "younger than --older");
	print_fate(out, sum->suppressed_blocks, "suppressed");
	text_caches_brief(out, processes, count);
	print_fate(out, sum->left_out_blocks, "not selected");
	if (known < sum->allocated_blocks)
		print_fate(out, sum->allocated_blocks - known, "freed by unseen calls");
}

/* Prints " at step (/abs/train.py:8) in 2 of 8 ranks" for the place at which ranks kept most
 * bytes. */
static void print_place_in_ranks(FILE *out, const struct ranks *ranks)
{
	const struct rank_leak *most = &ranks->accumulating[0];

	fputs(ranks->accumulating_count > 1 ? ", most at " : " at ", out);
	describe_place(out, most->leak->stack);
	fprintf(out, " in %zu of %zu ranks", most->count, ranks->count);
}

static void print_place(FILE *out, const struct headline *line)
{
	const struct accumulations *found = &line->accumulations;

	fputs(" at ", out);
	if (found->places > 1) {
		describe_count(out, found->places, "place");
		fputs(", most at ", out);
	}
	describe_place(out, found->most);
	if (!line->only) {
		fputs(" in ", out);
		describe_process(out, found->most_in);
	}
}

/* Prints "; 1.5 GiB in 400 tensors accumulate at step (/abs/train.py:8)", or nothing. */
static void print_accumulations(FILE *out, const struct headline *line)
{
	const struct accumulations *found = &line->accumulations;
	char size[NUMBER_MAX];

	if (!found->places)
		return;
	fprintf(out, "; %s in ", format_size(found->bytes, size));
	describe_count(out, found->blocks, suballocation_word(found->cache));
	fputs(found->blocks == 1 ? " accumulates" : " accumulate", out);
	if (line->ranks && line->ranks->all && line->ranks->accumulating_count)
		print_place_in_ranks(out, line->ranks);
	else
		print_place(out, line);
}

static void print_clean(FILE *out, const struct headline *line)
{
	const struct report_summary *sum = line->summary;
	const char *found = line->incomplete ? " found, but not everything was recorded" : "";
	/* errors and what accumulates come first */
	bool has_peak = line->only && line->only->peak_count && !line->accumulations.places &&
			!sum->errors;
	char size[NUMBER_MAX];

	fprintf(out, "no %sleaks%s", line->accumulations.places ? "driver " : "", found);
	print_accumulations(out, line);
	if (has_peak) {
		fputs("; ", out);
		describe_peak(out, line->only);
	}
	fputs(has_peak || line->accumulations.places ? "; " : ": ", out);
	if (sum->allocated_blocks == 0) {
		fputs("nothing allocated by ", out);
		print_subject(out, line);
		return;
	}
	describe_count(out, sum->allocated_blocks, "block");
	fprintf(out, " (%s) allocated by ", format_size(sum->allocated_bytes, size));
	print_subject(out, line);
	fputs(", ", out);
	print_fates(out, sum, line->all, line->processes);
	if (!has_peak)
		fprintf(out, ", %s %s", line->only ? "peak" : "sum of peaks",
			format_size(sum->peak_bytes, size));
	text_out_of_memory_brief(out, line->all, line->processes);
	if (line->stuck_in) {
		fputs("; ", out);
		describe_stuck(out, line->stuck_in);
	}
}

static void print_leak_total(FILE *out, const struct headline *line)
{
	const struct report_leak *worst = &line->worst_in->leaks[0];
	char size[NUMBER_MAX];

	describe_count(out, line->leaks, "leak");
	fputs(", ", out);
	describe_count(out, line->summary->leaked_blocks, "block");
	fputs(", ", out);
	describe_bytes(out, line->summary->leaked_bytes);
	fprintf(out, " %s by ", line->running ? "not freed so far" : "never freed");
	print_subject(out, line);
	fprintf(out, ", worst: %s", format_size(worst->bytes, size));
	if (worst->mapping) {
		fputs(", ", out);
		describe_mapped(out, worst);
	} else {
		fputs(" at ", out);
		describe_place_and_caller(out, worst->stack);
	}
	if (!line->only) {
		fputs(" in ", out);
		describe_process(out, line->worst_in);
	}
}

static void print_headline(FILE *out, const struct headline *line)
{
	fputs("gpuleak: ", out);
	text_no_gpu_first(out, line->all, line->processes);
	if (line->ranks)
		text_ranks_first(out, line->ranks);
	if (line->summary->errors) {
		describe_count(out, line->summary->errors, "error");
		fputs(line->leaks ? ", " : " by ", out);
		if (!line->leaks)
			print_subject(out, line);
		if (!line->leaks && line->error_in) {
			fputs(", first: ", out);
			describe_error_briefly(out, &line->error_in->errors[0]);
		}
		if (!line->leaks)
			fputs("; ", out);
	}
	if (line->leaks)
		print_leak_total(out, line);
	else
		print_clean(out, line);
	if (!line->leaks && line->only)
		text_objects_brief(out, line->only, "; ", "");
	if (line->leaks && line->error_in) {
		fputs("; first error: ", out);
		describe_error_briefly(out, &line->error_in->errors[0]);
		if (!line->only) {
			fputs(" in ", out);
			describe_process(out, line->error_in);
		}
	}
	if (line->leaks)
		print_accumulations(out, line);
	text_ipc_brief(out, line->all, line->processes);
	if (line->leaks && line->incomplete)
		fputs("; not everything was recorded", out);
	fputc('\n', out);
}

static void add_to_headline(struct headline *line, const struct report_process *process)
{
	line->processes++;
	line->leaks += process->leak_count;
	line->leaking += process->leak_count != 0;
	line->running |= process->ended == REPORT_RUNNING;
	line->incomplete |= process->incomplete;
	accumulations_add(&line->accumulations, process);
	if (process->leak_count &&
	    (!line->worst_in || process->leaks[0].bytes > line->worst_in->leaks[0].bytes))
		line->worst_in = process;
	if (process->error_count && !line->error_in)
		line->error_in = process;
	for (size_t i = 0; i < process->deferred.group_count && !line->stuck_in; i++)
		if (report_deferred_fails(&process->deferred.groups[i]))
			line->stuck_in = process;
}

static void print_headline_of_one(FILE *out, struct report_process *process)
{
	struct headline line = { .summary = &process->summary, .only = process,
				 .all = &process };

	add_to_headline(&line, process);
	print_headline(out, &line);
}

static void print_leak(FILE *out, const struct report_process *process,
		       const struct report_leak *leak)
{
	fputs(process->ended == REPORT_RUNNING ? "\nNot freed so far: " : "\nLeak of ", out);
	describe_amount(out, leak->bytes, leak->blocks);
	describe_source(out, leak->kind, leak->api, leak->device);
	if (leak->mapping) {
		fputs(", released, but never unmapped\n", out);
		describe_mapping(out, leak);
		fputs("  Allocated at:\n", out);
	} else {
		fputs(strcmp(leak->kind, "ipc") == 0 ? ", opened and never closed, at:\n"
						     : ", allocated at:\n", out);
	}
	describe_stack(out, leak->stack);
	describe_history(out, leak->history, leak->blocks);
	describe_keepers(out, leak->keepers);
	text_ipc_of_leak(out, process, leak);
}

static bool is_shared(const struct ranks *ranks, const struct report_leak *leak)
{
	return ranks && ranks_shares(ranks, leak);
}

/* Prints the leaks, except those that the section about RANKS prints. RANKS may be NULL. */
static void print_leaks(FILE *out, const struct report_process *process,
			const struct ranks *ranks)
{
	uint64_t bytes = 0, blocks = 0;
	size_t i, shared = 0;

	for (i = 0; i < process->leak_count && i < LEAKS_MAX; i++) {
		if (is_shared(ranks, &process->leaks[i]))
			shared++;
		else
			print_leak(out, process, &process->leaks[i]);
	}
	if (shared) {
		fputs("\nAnd ", out);
		describe_count(out, shared, "leak");
		fputs(" that other ranks have, too: listed above\n", out);
	}
	if (i == process->leak_count)
		return;
	for (; i < process->leak_count; i++) {
		bytes = add_bounded(bytes, process->leaks[i].bytes);
		blocks = add_bounded(blocks, process->leaks[i].blocks);
	}
	fputs("\nAnd ", out);
	describe_count(out, process->leak_count - LEAKS_MAX, "smaller leak");
	fputs(": ", out);
	describe_amount(out, bytes, blocks);
	fputs("; --format json lists all\n", out);
}

/* Prints which blocks were freed after the driver had begun to shut down. */
static void print_late(FILE *out, const struct report_process *process)
{
	char number[NUMBER_MAX];

	for (size_t i = 0; i < process->late_count && i < LEAKS_MAX; i++) {
		const struct report_late *late = &process->late[i];

		fprintf(out, "\nFreed after the driver had begun to shut down: %s block%s (",
			format_number(late->blocks, number), plural(late->blocks));
		describe_kind(out, late->kind);
		fputs(", ", out);
		print_escaped(out, late->api);
		fputs("), allocated at:\n", out);
		describe_stack(out, late->stack);
	}
}

static void print_notes(FILE *out, const char *const *notes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		fputs("note: ", out);
		print_escaped(out, notes[i]);
		fputc('\n', out);
	}
}

static void print_last_line(FILE *out, struct report_process *process)
{
	const struct report_summary *sum = &process->summary;
	char number[NUMBER_MAX], size[NUMBER_MAX];

	fputs("\ngpuleak: ", out);
	describe_process(out, process);
	fputs(": ", out);
	describe_count(out, sum->allocated_blocks, "block");
	fprintf(out, " (%s) allocated, ", format_size(sum->allocated_bytes, size));
	print_fates(out, sum, &process, 1);
	if (sum->leaked_blocks)
		fprintf(out, ", %s %s (%s)", format_number(sum->leaked_blocks, number),
			process->ended == REPORT_RUNNING ? "not freed so far" : "leaked",
			format_size(sum->leaked_bytes, size));
	fprintf(out, ", peak %s; ", format_size(sum->peak_bytes, size));
	describe_ended(out, process);
	fputc('\n', out);
}

/* Returns true if PROCESS is a rank without findings of its own: other ranks also have all of its
 * leaks and call sites that accumulate. Then one line about it is enough. */
static bool is_typical_rank(const struct report_process *process, const struct ranks *ranks)
{
	if (!ranks || (!process->leak_count && !text_accumulates(process)) ||
	    process->summary.errors || process->deferred.group_count || process->note_count ||
	    text_ipc_is_wrong(process))
		return false;
	for (size_t i = 0; i < process->leak_count; i++)
		if (!ranks_shares(ranks, &process->leaks[i]))
			return false;
	for (size_t i = 0; i < process->suballocation_count; i++)
		if (report_accumulates(&process->suballocations[i]) &&
		    !ranks_shares(ranks, &process->suballocations[i].live))
			return false;
	return true;
}

static int print_process(FILE *out, struct report_process *process, bool verbose,
			 const struct ranks *ranks)
{
	bool wrong;
	int r;

	if (is_typical_rank(process, ranks) && !verbose) {
		print_last_line(out, process);
		return 0;
	}
	print_headline_of_one(out, process);
	r = text_out_of_memory(out, process, verbose);
	if (r < 0)
		return r;
	text_growth(out, process);
	text_named_steps(out, process);
	if (!verbose && process->leak_count)
		text_objects_brief(out, process, "gpuleak: ", "\n");
	print_leaks(out, process, ranks);
	text_accumulating(out, process, ranks);
	r = describe_errors(out, process);
	if (r < 0)
		return r;
	text_ipc_freed(out, process);
	describe_deferred(out, process, verbose);
	if (verbose) {
		print_late(out, process);
		text_objects(out, process);
	}
	wrong = process->leak_count || process->summary.errors || process->deferred.group_count ||
		text_accumulates(process) || text_ipc_is_wrong(process);
	if (wrong || verbose)
		text_caches(out, process, verbose);
	if (verbose)
		text_suballocations(out, process);
	text_pool(out, process, wrong || verbose);
	if (wrong || verbose)
		r = text_peaks(out, process, verbose);
	if (r < 0)
		return r;
	if (wrong) {
		print_last_line(out, process);
		describe_coverage(out, process);
	}
	if (wrong || verbose)
		text_driver_memory(out, process, verbose);
	describe_outside(out, "note: ", process);
	print_notes(out, process->notes, process->note_count);
	return 0;
}

/* Prints a line about a used suppression. Before the first line (NUMBER 0) also prints the heading
 * with WHOSE at its end. */
static void print_use(FILE *out, size_t number, uint64_t blocks, uint64_t bytes,
		      const char *pattern, const char *whose)
{
	char left[NUMBER_MAX], right[NUMBER_MAX];

	if (number == 0)
		fprintf(out, "Suppressions used%s:\n%10s %20s  pattern\n", whose, "blocks",
			"bytes");
	fprintf(out, "%10s %20s  ", format_number(blocks, left), format_number(bytes, right));
	print_escaped(out, pattern);
	fputc('\n', out);
}

/* Prints the blocks that the programs ignored with gpuleak_ignore(). Returns the number of
 * lines. */
static size_t print_ignored(FILE *out, const struct report *report)
{
	uint64_t blocks = 0, bytes = 0;

	for (size_t i = 0; i < report->count; i++)
		for (size_t j = 0; j < report->processes[i]->suppressed_count; j++) {
			const struct report_leak *leak = &report->processes[i]->suppressed[j];

			blocks = add_bounded(blocks, leak->ignored ? leak->blocks : 0);
			bytes = add_bounded(bytes, leak->ignored ? leak->bytes : 0);
		}
	if (blocks)
		print_use(out, 0, blocks, bytes, REPORT_IGNORED, "");
	return blocks != 0;
}

/* Prints the used SUPPRESSIONS. USED is the number of lines already printed below the heading. */
static void print_used(FILE *out, const struct pattern_file *suppressions, size_t used,
		       const char *whose)
{
	for (size_t i = 0; i < suppressions_size(suppressions); i++) {
		const struct pattern_rule *use = &suppressions->rules[i];

		if (use->matched)
			print_use(out, used++, use->blocks, use->bytes, use->pattern.text,
				  whose);
	}
}

/* Prints all used suppressions, and the unused ones of the user's file. Unused suppressions of the
 * program itself are not printed, because they are intended for host memory. */
static void print_suppressions(FILE *out, const struct report *report)
{
	const struct pattern_file *suppressions = report->suppressions;

	print_used(out, suppressions, print_ignored(out, report), "");
	for (size_t i = 0; i < suppressions_size(suppressions); i++) {
		const struct pattern_rule *use = &suppressions->rules[i];

		if (use->matched)
			continue;
		fprintf(out, "Suppression in line %u matched nothing: leak:", use->line);
		print_escaped(out, use->pattern.text);
		fputc('\n', out);
	}
	for (size_t i = 0; i < report->count; i++)
		print_used(out, report->processes[i]->program_suppressions, 0,
			   " (__lsan_default_suppressions of the program)");
}

/* Prints the first line for several processes. JOB is NULL if they are not ranks of one job. */
static void print_headline_of_several(FILE *out, const struct report *report,
				      const struct ranks *job)
{
	struct headline line = { .summary = &report->summary, .incomplete = report->incomplete,
				 .all = report->processes, .ranks = job };

	for (size_t i = 0; i < report->count; i++)
		add_to_headline(&line, report->processes[i]);
	print_headline(out, &line);
}

static int print_several(FILE *out, const struct report *report)
{
	const struct ranks *job;
	struct ranks ranks;
	int r = ranks_find(report, &ranks);

	if (r < 0)
		return r;
	job = ranks.count > 1 ? &ranks : NULL;
	print_headline_of_several(out, report, job);
	if (job) {
		text_ranks_more(out, job);
		text_ranks_shared(out, job);
	}
	for (size_t i = 0; i < report->count && r == 0; i++) {
		if (report->verbose || !is_typical_rank(report->processes[i], job))
			fputc('\n', out);
		r = print_process(out, report->processes[i], report->verbose, job);
	}
	ranks_finish(&ranks);
	return r;
}

static void print_nothing(FILE *out, const struct report *report)
{
	fprintf(out, "gpuleak: %s\n", findings_nothing(report));
}

static int print_processes(FILE *out, const struct report *report)
{
	if (report->count == 0) {
		print_nothing(out, report);
		return 0;
	}
	if (report->count == 1)
		return print_process(out, report->processes[0], report->verbose, NULL);
	return print_several(out, report);
}

static bool any_accumulates(const struct report *report)
{
	for (size_t i = 0; i < report->count; i++)
		if (text_accumulates(report->processes[i]))
			return true;
	return false;
}

int print_text(const struct report *report, const struct judgement *judgement, FILE *out)
{
	int r;

	(void)judgement;
	describe_whole_stacks(report->verbose);
	r = text_out_of_memory_first(out, report->processes, report->count);
	if (r == 0)
		r = print_processes(out, report);
	if (r < 0)
		return r;
	for (size_t i = 0; i < report->count && report->verbose; i++)
		describe_all_coverage(out, report->processes[i]);
	print_notes(out, (const char *const *)report->notes, report->note_count);
	print_notes(out, (const char *const *)report->remarks, report->remark_count);
	text_debuginfo(out, report);
	print_suppressions(out, report);
	if (report->verbose && (report->summary.leaked_blocks || any_accumulates(report))) {
		fputs("To suppress these leaks, write these lines to a file for --suppressions:\n",
		      out);
		r = gen_suppressions(report, out);
		if (r < 0)
			return r;
	}
	return ferror(out) ? -EIO : 0;
}

int print_text_headline(const struct report *report, FILE *out)
{
	struct ranks ranks;
	int r = ranks_find(report, &ranks);

	if (r < 0)
		return r;
	r = text_out_of_memory_first(out, report->processes, report->count);
	if (report->count == 0)
		print_nothing(out, report);
	else if (report->count == 1)
		print_headline_of_one(out, report->processes[0]);
	else
		print_headline_of_several(out, report, ranks.count > 1 ? &ranks : NULL);
	ranks_finish(&ranks);
	return r;
}
