/* SPDX-License-Identifier: MIT
 *
 * Prints the summary line, then problems to fix, then notes. The first line names the largest
 * leak and the application's line.
 */
#include "report/subjects/formats.h"

#include <errno.h>
#include <stdbool.h>

#include "report/analyze/accumulations.h"
#include "report/analyze/ranks.h"
#include "report/describe/describe_stack.h"
#include "report/describe/format_place.h"
#include "report/model/model.h"
#include "report/model/model_suballocations.h"
#include "report/subjects/findings.h"
#include "report/subjects/subject.h"
#include "report/subjects/subject_words.h"
#include "report/util/number.h"

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
	bool whole; /* see describe_stack.h */
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

/* Prints " at step (/abs/train.py:8) in 2 of 8 ranks" for the place at which ranks kept most
 * bytes. */
static void print_place_in_ranks(FILE *out, const struct ranks *ranks, bool whole)
{
	const struct rank_leak *most = &ranks->accumulating[0];

	fputs(ranks->accumulating_count > 1 ? ", most at " : " at ", out);
	describe_place(out, most->leak->site->stack, whole);
	fprintf(out, " in %zu of %zu ranks", most->count, ranks->count);
}

static void print_place(FILE *out, const struct headline *line)
{
	const struct accumulations *found = &line->accumulations;

	fputs(" at ", out);
	if (found->places > 1) {
		fprintf(out, "%s, most at ", COUNT(found->places, "place"));
	}
	describe_place(out, found->most, line->whole);
	if (!line->only) {
		fputs(" in ", out);
		describe_process(out, found->most_in);
	}
}

/* Prints "; 1.5 GiB in 400 tensors accumulate at step (/abs/train.py:8)", or nothing. */
static void print_accumulations(FILE *out, const struct headline *line)
{
	const struct accumulations *found = &line->accumulations;

	if (!found->places)
		return;
	fprintf(out, "; %s in %s%s", SIZE(found->bytes),
		COUNT(found->blocks, suballocation_word(found->cache)),
		found->blocks == 1 ? " accumulates" : " accumulate");
	if (line->ranks && line->ranks->all && line->ranks->accumulating_count)
		print_place_in_ranks(out, line->ranks, line->whole);
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

	fprintf(out, "no %sleaks%s", line->accumulations.places ? "driver " : "", found);
	print_accumulations(out, line);
	if (has_peak) {
		fputs("; ", out);
		describe_peak(out, line->only, line->whole);
	}
	fputs(has_peak || line->accumulations.places ? "; " : ": ", out);
	if (sum->allocated_blocks == 0) {
		fputs("nothing allocated by ", out);
		print_subject(out, line);
		return;
	}
	fprintf(out, "%s (%s) allocated by ", COUNT(sum->allocated_blocks, "block"),
		SIZE(sum->allocated_bytes));
	print_subject(out, line);
	fputs(", ", out);
	describe_fates(out, sum, line->all, line->processes);
	if (!has_peak)
		fprintf(out, ", %s %s", line->only ? "peak" : "sum of peaks",
			SIZE(sum->peak_bytes));
	describe_refusals(out, line->all, line->processes);
	if (line->stuck_in) {
		fputs("; ", out);
		describe_stuck(out, line->stuck_in, line->whole);
	}
}

static void print_leak_total(FILE *out, const struct headline *line)
{
	const struct report_leak *worst = &line->worst_in->leaks[0];

	fprintf(out, "%s, %s, %s %s by ", COUNT(line->leaks, "leak"),
		COUNT(line->summary->leaked_blocks, "block"),
		EXACT_SIZE(line->summary->keeps_bytes),
		line->running ? "not freed so far" : "never freed");
	print_subject(out, line);
	fprintf(out, ", worst: %s", SIZE(worst->keeps_bytes));
	if (worst->mapping) {
		fputs(", ", out);
		describe_mapped(out, worst, line->whole);
	} else {
		fputs(" at ", out);
		describe_place_and_caller(out, worst->site->stack, line->whole);
	}
	describe_refused_free(out, "; a", worst->refused, "", line->whole);
	if (!line->only) {
		fputs(" in ", out);
		describe_process(out, line->worst_in);
	}
}

static void print_headline(FILE *out, const struct headline *line)
{
	bool has_ended = line->summary->ended_with_context_blocks != 0;

	fputs("gpuleak: ", out);
	describe_no_gpu(out, line->all, line->processes);
	if (line->ranks)
		describe_odd_ranks(out, line->ranks);
	if (line->summary->errors) {
		fprintf(out, "%s%s", COUNT(line->summary->errors, "error"),
			line->leaks ? ", " : " by ");
		if (!line->leaks)
			print_subject(out, line);
		if (!line->leaks && line->error_in) {
			fputs(", first: ", out);
			describe_error_briefly(out, &line->error_in->errors[0], line->whole);
		}
		if (!line->leaks)
			fputs("; ", out);
	}
	if (!line->leaks && line->only)
		describe_objects(out, line->only, true, "", "; ");
	if (line->leaks)
		print_leak_total(out, line);
	if (line->leaks && has_ended)
		fputs("; ", out);
	if (has_ended)
		describe_context_ends(out, line->all, line->processes, line->whole);
	else if (!line->leaks)
		print_clean(out, line);
	if (!line->leaks && line->only)
		describe_objects(out, line->only, false, "; ", "");
	if (line->leaks && line->error_in) {
		fputs("; first error: ", out);
		describe_error_briefly(out, &line->error_in->errors[0], line->whole);
		if (!line->only) {
			fputs(" in ", out);
			describe_process(out, line->error_in);
		}
	}
	if (line->leaks || has_ended)
		print_accumulations(out, line);
	describe_freed_while_open(out, line->all, line->processes, line->whole);
	if ((line->leaks || has_ended) && line->incomplete)
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
	if (process->suballocation_count)
		accumulations_add(&line->accumulations, process);
	if (process->leak_count &&
	    (!line->worst_in ||
	     process->leaks[0].keeps_bytes > line->worst_in->leaks[0].keeps_bytes))
		line->worst_in = process;
	if (process->error_count && !line->error_in)
		line->error_in = process;
	for (size_t i = 0; i < process->deferred.group_count && !line->stuck_in; i++)
		if (report_deferred_fails(&process->deferred.groups[i]))
			line->stuck_in = process;
}

static void print_headline_of_one(FILE *out, struct report_process *process, bool whole)
{
	struct headline line = { .summary = &process->summary, .only = process,
				 .all = &process, .whole = whole };

	add_to_headline(&line, process);
	print_headline(out, &line);
}

/* Returns true if PROCESS is a rank without findings of its own: other ranks also have all of its
 * leaks and call sites that accumulate. Then one line about it is enough. */
static bool is_typical_rank(const struct report_process *process, const struct ranks *ranks)
{
	if (!ranks || (!process->leak_count && !process_accumulates(process)) ||
	    process->summary.errors || process->context_end_count ||
	    process->deferred.group_count || process->note_count ||
	    subject_ipc.is_wrong(process))
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

static void print_process(FILE *out, struct report_process *process, bool verbose,
			  const struct ranks *ranks)
{
	const struct subject_view view = { .process = process, .ranks = ranks, .verbose = verbose,
					   .is_wrong = subjects_are_wrong(process) };

	if (is_typical_rank(process, ranks) && !verbose) {
		describe_sums(out, process);
		return;
	}
	print_headline_of_one(out, process, verbose);
	subjects_print_findings(out, &view);
	subjects_print_details(out, &view);
}

/* Prints the first line for several processes. JOB is NULL if they are not ranks of one job. */
static void print_headline_of_several(FILE *out, const struct report *report,
				      const struct ranks *job, bool whole)
{
	struct headline line = { .summary = &report->summary, .incomplete = report->incomplete,
				 .all = report->processes, .ranks = job,
				 .whole = whole };

	for (size_t i = 0; i < report->count; i++)
		add_to_headline(&line, report->processes[i]);
	print_headline(out, &line);
}

static void print_several(FILE *out, const struct report *report)
{
	struct ranks ranks = ranks_find(report);
	const struct ranks *job = ranks.count > 1 ? &ranks : NULL;

	print_headline_of_several(out, report, job, report->verbose);
	if (job) {
		describe_more_odd_ranks(out, job);
		describe_shared_leaks(out, job, report->verbose);
	}
	for (size_t i = 0; i < report->count; i++) {
		if (report->verbose || !is_typical_rank(report->processes[i], job))
			fputc('\n', out);
		print_process(out, report->processes[i], report->verbose, job);
	}
	ranks_finish(&ranks);
}

static void print_nothing(FILE *out, const struct report *report)
{
	fprintf(out, "gpuleak: %s\n", findings_nothing(report));
}

static bool any_accumulates(const struct report *report)
{
	for (size_t i = 0; i < report->count; i++)
		if (process_accumulates(report->processes[i]))
			return true;
	return false;
}

int print_text(const struct report *report, const struct judgement *judgement, FILE *out)
{
	(void)judgement;
	describe_final_out_of_memory(out, report->processes, report->count, report->verbose);
	if (report->count == 0)
		print_nothing(out, report);
	else if (report->count == 1)
		print_process(out, report->processes[0], report->verbose, NULL);
	else
		print_several(out, report);
	for (size_t i = 0; i < report->count && report->verbose; i++)
		describe_all_coverage(out, report->processes[i]);
	describe_notes(out, (const char *const *)report->notes, report->note_count);
	describe_notes(out, (const char *const *)report->remarks, report->remark_count);
	describe_missing_debuginfo(out, report);
	describe_suppressions(out, report);
	if (report->verbose && (report->summary.leaked_blocks || any_accumulates(report))) {
		fputs("To suppress these leaks, write these lines to a file for --suppressions:\n",
		      out);
		gen_suppressions(report, out, report->verbose);
	}
	return ferror(out) ? -EIO : 0;
}

void print_text_headline(const struct report *report, FILE *out, bool whole)
{
	struct ranks ranks = ranks_find(report);

	describe_final_out_of_memory(out, report->processes, report->count, whole);
	if (report->count == 0)
		print_nothing(out, report);
	else if (report->count == 1)
		print_headline_of_one(out, report->processes[0], whole);
	else
		print_headline_of_several(out, report, ranks.count > 1 ? &ranks : NULL, whole);
	ranks_finish(&ranks);
}
