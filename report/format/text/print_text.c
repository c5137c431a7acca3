/* SPDX-License-Identifier: MIT
 *
 * Prints the first lines of a report: the most important finding, how many others there are, and
 * the totals. The subjects print what follows. The first line of a clean report is the only one.
 */
#include "report/subjects/formats.h"

#include "report/analyze/ranks.h"
#include "report/model/growth_rule.h"
#include "report/subjects/subject.h"
#include "report/util/memory.h"
#include "report/util/short_line.h"

#define COLUMNS_MAX 160 /* of the first lines, without --verbose */
#define ALIKE_MAX 8     /* ranks without findings of their own, without --verbose */
#define PREFIX "gpuleak: "

/* The data for the first lines, about one process or about all processes. */
struct headline {
	const struct report_summary *summary;
	/* the first finding of each class, or NULL, and the number of findings */
	const struct finding *first[FINDING_CLASSES];
	size_t count[FINDING_CLASSES];
	/* first process with released blocks that a user event holds (see describe_stuck()), or
	 * NULL */
	const struct report_process *stuck_in;
	/* the process with the largest growth per step, or NULL */
	const struct report_process *growing_in;
	size_t suspects, processes, leaking;
	bool mixed; /* leaks need different calls */
	bool ended_elsewhere; /* contexts also ended at another place than the first one's */
	const struct report_process *only; /* the process, if there is only one; or NULL */
	const struct ranks *ranks; /* the parallel job of the processes, or NULL */
	struct report_process *const *all;
	bool running, incomplete, whole; /* whole: see describe_stack.h */
};

/* Prints the name of the process, or the number of processes. LEAKING: of those that leak. */
static void print_subject(FILE *out, const struct headline *line, bool leaking)
{
	bool ranks = line->ranks && line->ranks->all;
	size_t all = ranks ? line->ranks->count : line->processes;

	if (line->only) {
		describe_process(out, line->only);
		return;
	}
	if (leaking && (ranks || line->leaking != all))
		fprintf(out, "%zu of ", ranks ? line->ranks->leaking : line->leaking);
	fprintf(out, "%zu %s", all, ranks ? "ranks" : "processes");
}

/* Prints " in app (pid 12)" if the line is about several processes. */
static void print_where(FILE *out, const struct headline *line, const struct report_process *in)
{
	if (line->only)
		return;
	fputs(" in ", out);
	describe_process(out, in);
}

/* ---- findings, by class ---- */

/* These functions print nothing if there is no finding of the class. BRIEF: for the second line. */

static void say_errors(FILE *out, const struct headline *line, bool brief)
{
	const struct finding *first = line->first[FINDING_ERROR];
	uint64_t errors = line->summary->errors;

	if (errors && (brief || errors > 1 || !first))
		fputs(COUNT(errors, "error"), out);
	if (!first || brief)
		return;
	fputs(errors > 1 ? ", first: " : "", out);
	describe_error_briefly(out, first->errors->error, line->whole);
	print_where(out, line, first->process);
}

static void say_out_of_memory(FILE *out, const struct headline *line, bool brief)
{
	const struct finding *first = line->first[FINDING_OUT_OF_MEMORY];

	if (!first)
		return;
	fputs(brief ? "out of memory" : "out of memory: ", out);
	if (brief)
		return;
	describe_out_of_memory(out, first->process, first->refusal, line->whole);
	print_where(out, line, first->process);
}

/* Prints ", most (1.0 MiB in 4 of 8 blocks) at load (/abs/a.c:10), called from main (...)". */
static void print_worst(FILE *out, const struct headline *line, const struct finding *worst)
{
	const struct report_leak *leak = worst->leak;
	bool several = line->count[FINDING_LEAK] > 1;
	bool is_most = worst->keeps > line->summary->keeps_bytes / 2;

	if (several) {
		fprintf(out, ", %s (%s", is_most ? "most" : "the largest", SIZE(worst->keeps));
		if (worst->freed) {
			fputs(" in ", out);
			finding_blocks(out, worst);
		}
		fputs(line->mixed ? ") " : ")", out);
	}
	if (line->mixed)
		describe_missing_call(out, leak, line->running);
	if (!several || line->mixed)
		fprintf(out, ", %s", describe_made(leak));
	fputs(" at ", out);
	describe_leak_place(out, worst, line->whole);
	print_where(out, line, worst->process);
}

static void say_leaks(FILE *out, const struct headline *line, bool brief)
{
	const struct report_summary *sum = line->summary;
	const struct finding *worst = line->first[FINDING_LEAK];

	if (!worst)
		return;
	fprintf(out, "%s%s%s in ", COUNT(line->count[FINDING_LEAK], "leak"), brief ? " (" : ", ",
		SIZE(sum->keeps_bytes));
	if (line->count[FINDING_LEAK] == 1 && !brief)
		finding_blocks(out, worst);
	else
		fprintf(out, "%s%s", COUNT(sum->leaked_blocks, "block"), brief ? ")" : "");
	if (brief)
		return;
	if (!line->mixed) {
		fputc(' ', out);
		describe_missing_call(out, worst->leak, line->running);
	}
	if (!line->only) {
		fputs(" by ", out);
		print_subject(out, line, true);
	}
	print_worst(out, line, worst);
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

/* Prints "1.5 GiB in 400 tensors accumulate at step (/abs/train.py:8), kept by list `losses`". */
static void say_accumulations(FILE *out, const struct headline *line, bool brief)
{
	const struct finding *most = line->first[FINDING_ACCUMULATING];
	const struct report_summary *sum = line->summary;

	if (!most)
		return;
	fprintf(out, "%s in %s%s", SIZE(sum->accumulating_bytes),
		COUNT(sum->accumulating_blocks, suballocation_word(most->leak->cache)),
		sum->accumulating_blocks == 1 ? " accumulates" : " accumulate");
	if (brief)
		return;
	if (line->ranks && line->ranks->all && line->ranks->accumulating_count) {
		print_place_in_ranks(out, line->ranks, line->whole);
		return;
	}
	fputs(" at ", out);
	if (line->count[FINDING_ACCUMULATING] > 1)
		fprintf(out, "%s, most at ", COUNT(line->count[FINDING_ACCUMULATING], "place"));
	describe_place(out, most->stack, line->whole);
	describe_first_keeper(out, most->leak->keepers);
	print_where(out, line, most->process);
}

static void say_objects(FILE *out, const struct headline *line, bool brief)
{
	(void)brief;
	if (line->only)
		describe_objects(out, line->only, true, "");
}

/* Prints "1,000 blocks (1000.0 MiB) never freed, ended with their context at main (/abs/a.cu:3);
 * most at step (/abs/a.cu:2)". */
static void say_context_ends(FILE *out, const struct headline *line, bool brief)
{
	const struct finding *most = line->first[FINDING_CONTEXT_END];
	uint64_t blocks = line->summary->ended_with_context_blocks;

	if (!most)
		return;
	fprintf(out, "%s (%s) %sended with %s context", COUNT(blocks, "block"),
		SIZE(line->summary->ended_with_context_bytes), brief ? "" : "never freed, ",
		blocks == 1 ? "its" : "their");
	if (brief)
		return;
	if (most->end->ended.api) {
		fputs(" at ", out);
		describe_place(out, most->end->ended.stack, line->whole);
		fputs(line->ended_elsewhere ? " and elsewhere" : "", out);
	}
	fputs(line->count[FINDING_CONTEXT_END] > 1 ? "; most at " : "; allocated at ", out);
	describe_place_and_caller(out, most->stack, line->whole);
	print_where(out, line, most->process);
}

/* Prints what keeps freed memory from being freed, or who still uses it. */
static void say_wrong_times(FILE *out, const struct headline *line, bool brief)
{
	(void)brief;
	if (line->stuck_in)
		describe_stuck(out, line->stuck_in, line->whole);
	else
		describe_freed_while_open(out, line->all, line->processes, line->whole);
}

/* Prints "growth of 1.0 MiB per step at keep (/abs/app.c:24), called from handle (...)". */
static void say_growth(FILE *out, const struct headline *line, bool brief)
{
	const struct report_suspect *most;

	if (!line->suspects)
		return;
	if (brief) {
		fprintf(out, "growth from step to step at %s", COUNT(line->suspects, "place"));
		return;
	}
	most = &line->growing_in->growth->suspects[0];
	fputs("growth of ", out);
	describe_growth_rate(out, most);
	fputs(line->suspects > 1 ? ", most at " : " at ", out);
	describe_place_and_caller(out, most->site->stack, line->whole);
	print_where(out, line, line->growing_in);
}

static void say_what_is_left(FILE *out, const struct headline *line, bool brief)
{
	if (line->only && (brief || (!line->incomplete && is_much_left(line->only))))
		describe_left(out, line->only, brief ? "" : "no memory leaked; ", line->whole);
}

static void say_kept(FILE *out, const struct headline *line, bool brief)
{
	describe_kept(out, line->summary, line->first[FINDING_KEPT], brief, line->whole);
}

static void (*const classes[])(FILE *out, const struct headline *line, bool brief) = {
	say_errors, say_out_of_memory, say_wrong_times, say_leaks, say_accumulations,
	say_objects, say_context_ends, say_growth, say_kept, say_what_is_left,
};

#define CLASS_COUNT (sizeof(classes) / sizeof(classes[0]))

/* ---- lines ---- */

/* Prints TEXT, which begins with PREFIX, in several lines if it is too long. Changes TEXT. */
static void print_lines(FILE *out, char *text, bool whole)
{
	char *rest = text + strlen(PREFIX);

	while ((text = rest)) {
		rest = whole ? NULL : short_line(text, COLUMNS_MAX - strlen(PREFIX));
		fprintf(out, PREFIX "%s\n", text);
	}
}

/* Prints "15 blocks (12.0 MiB) allocated by app (pid 12), 1 freed, 14 leaked: ...". */
static void print_totals(FILE *out, const struct headline *line, bool has_holder)
{
	const struct report_summary *sum = line->summary;

	if (sum->allocated_blocks == 0) {
		fputs("nothing allocated by ", out);
		print_subject(out, line, false);
		return;
	}
	fprintf(out, "%s (%s) allocated by ", COUNT(sum->allocated_blocks, "block"),
		SIZE(sum->allocated_bytes));
	print_subject(out, line, false);
	fputs(", ", out);
	describe_fates(out, sum, line->all, line->processes);
	if (sum->leaked_blocks)
		fprintf(out, ", %s %s: %s", NUMBER(sum->leaked_blocks),
			line->running ? "not freed so far" : "leaked",
			EXACT_SIZE(sum->leaked_bytes));
	if (sum->keeps_bytes > sum->leaked_bytes)
		fprintf(out, ", which keep%s %s", sum->leaked_blocks == 1 ? "s" : "",
			SIZE(sum->keeps_bytes));
	if (has_holder && line->only && line->only->peak_count) {
		fputs("; ", out);
		describe_peak(out, line->only, line->whole);
	} else {
		fprintf(out, ", %s %s", line->only ? "peak" : "sum of peaks",
			SIZE(sum->peak_bytes));
	}
	describe_refusals(out, line->all, line->processes);
}

static void print_clean(FILE *out, const struct headline *line)
{
	fprintf(out, "%s%s: ", line->all[0]->attached ? "no kept blocks" : "no leaks",
		line->incomplete ? " found, but not everything was recorded" : "");
	print_totals(out, line, true);
}

/* Prints the line that follows the first one, or stands for it. */
static void print_more_totals(FILE *out, const struct headline *line, bool has_holder)
{
	FREE_AT_END char *text = PRINTED(to, {
		fputs(PREFIX, to);
		print_totals(to, line, has_holder);
		fputs(line->only ? "; " : "", to);
		if (line->only)
			describe_ended(to, line->only);
	});

	print_lines(out, text, line->whole || !has_holder);
}

/* Prints the first line. Returns the number of the class that it is about, or CLASS_COUNT if the
 * report is clean. */
static size_t print_first(FILE *out, const struct headline *line)
{
	size_t class = 0;
	FREE_AT_END char *text = PRINTED(to, {
		fputs(PREFIX, to);
		describe_no_gpu(to, line->all, line->processes);
		if (line->ranks)
			describe_odd_ranks(to, line->ranks);
		for (long start = ftell(to); class < CLASS_COUNT; class++) {
			classes[class](to, line, false);
			if (ftell(to) > start)
				break;
		}
		if (class == CLASS_COUNT)
			print_clean(to, line);
	});

	if (class == CLASS_COUNT && !line->whole)
		short_paths(text, COLUMNS_MAX);
	print_lines(out, text, line->whole || class == CLASS_COUNT);
	return class;
}

/* Prints the classes of findings after FIRST; of a clean report, what libraries keep until exit. */
static void print_others(FILE *out, const struct headline *line, size_t first)
{
	const char *before = PREFIX "also: ";
	bool is_clean = first == CLASS_COUNT;

	for (size_t class = is_clean ? CLASS_COUNT - 1 : first + 1; class <= CLASS_COUNT; class++) {
		FREE_AT_END char *item = PRINTED(to, {
			if (class < CLASS_COUNT)
				classes[class](to, line, true);
			else if (line->incomplete && !is_clean)
				fputs("not everything was recorded", to);
		});

		if (*item)
			fprintf(out, "%s%s", before, item);
		before = *item ? "; " : before;
	}
}

static void print_headline(FILE *out, const struct headline *line)
{
	size_t class = print_first(out, line);
	FREE_AT_END char *others = PRINTED(to, print_others(to, line, class));

	if (*others)
		print_lines(out, others, line->whole);
	if (class < CLASS_COUNT)
		print_more_totals(out, line, classes[class] == say_what_is_left);
	describe_attached(out, line->only);
}

static void add_process(struct headline *line, const struct report_process *process)
{
	const struct report_growth *growth = process->growth;

	line->leaking += process->leak_count != 0;
	line->running |= process->ended == REPORT_RUNNING;
	line->incomplete |= process->incomplete;
	if (growth && growth->suspect_count &&
	    (!line->growing_in || growth->suspects[0].bytes_per_step >
				  line->growing_in->growth->suspects[0].bytes_per_step))
		line->growing_in = process;
	line->suspects += growth ? growth->suspect_count : 0;
	for (size_t i = 0; i < process->deferred.group_count && !line->stuck_in; i++)
		if (report_deferred_fails(&process->deferred.groups[i]))
			line->stuck_in = process;
}

/* Returns the headline of ALL, the only process of COUNT 1 or those of REPORT. JOB is NULL if they
 * are not ranks of one job. */
static struct headline headline_of(const struct report *report, const struct findings *findings,
				   struct report_process *const *all, size_t count,
				   const struct ranks *job, bool whole)
{
	struct headline line = { .summary = &report->summary, .incomplete = report->incomplete,
				 .all = all, .processes = count, .ranks = job, .whole = whole };

	if (count == 1) {
		line.only = *all;
		line.summary = &line.only->summary;
		line.incomplete = false;
	}
	for (size_t i = 0; i < count; i++)
		add_process(&line, all[i]);
	EACH_ITEM(findings->all, findings->count, finding) {
		if (line.only && finding->process != line.only)
			continue;
		if (!line.count[finding->class]++)
			line.first[finding->class] = finding;
		line.mixed |= finding->class == FINDING_LEAK &&
			      !is_same_missing_call(finding->leak, line.first[FINDING_LEAK]->leak);
		line.ended_elsewhere |= finding->class == FINDING_CONTEXT_END &&
					strcmp(PLACE(finding->end->ended.stack),
					       PLACE(line.first[finding->class]->end->ended.stack));
	}
	return line;
}

/* ---- processes ---- */

/* Returns true if PROCESS is a rank without findings of its own: other ranks also have all of its
 * leaks and call sites that accumulate. Then one line about it is enough. */
static bool is_typical_rank(const struct report_process *process, const struct findings *findings,
			    const struct ranks *ranks)
{
	bool is_shared = false;

	if (!ranks || process->deferred.group_count || process->note_count ||
	    subject_ipc.is_wrong(process))
		return false;
	EACH_ITEM(findings->all, findings->count, finding) {
		if (finding->process != process || finding->class >= FINDING_CACHED)
			continue;
		is_shared = finding->leak && !finding->end && finding_is_shared(finding, ranks);
		if (!is_shared)
			return false;
	}
	return is_shared && !process->summary.errors;
}

static void print_process(FILE *out, const struct report *report, const struct findings *findings,
			  struct report_process *process, const struct ranks *ranks)
{
	const struct subject_view view = { .process = process, .ranks = ranks,
					   .findings = findings, .verbose = report->verbose,
					   .is_wrong = subjects_are_wrong(process) };
	struct headline line = headline_of(report, findings, &process, 1, NULL, report->verbose);
	FREE_AT_END char *details = NULL;

	if (is_typical_rank(process, findings, ranks) && !report->verbose) {
		fputc('\n', out);
		print_more_totals(out, &line, false);
		return;
	}
	print_headline(out, &line);
	subjects_print_findings(out, &view);
	details = PRINTED(to, subjects_print_details(to, &view));
	fprintf(out, "%s%s", view.is_wrong && *details && *details != '\n' ? "\n" : "", details);
}

static void print_several(FILE *out, const struct report *report, const struct findings *findings)
{
	AT_END(ranks_finish) struct ranks ranks = ranks_find(report);
	const struct ranks *job = ranks.count > 1 ? &ranks : NULL;
	struct headline line = headline_of(report, findings, report->processes, report->count, job,
					   report->verbose);
	size_t alike = 0;

	print_headline(out, &line);
	if (job) {
		describe_more_odd_ranks(out, job);
		describe_shared_leaks(out, job, report->verbose);
	}
	for (size_t i = 0; i < report->count; i++) {
		bool typical = !report->verbose &&
			       is_typical_rank(report->processes[i], findings, job);

		if (!typical)
			fputc('\n', out);
		alike += typical;
		if (!typical || alike <= ALIKE_MAX)
			print_process(out, report, findings, report->processes[i], job);
	}
	if (alike > ALIKE_MAX)
		fprintf(out, "\nAnd %s without findings of their own; --verbose 1 lists them\n",
			COUNT(alike - ALIKE_MAX, "more rank"));
}

/* Prints the first note in place of the headline if it states why nothing was recorded. Returns the
 * number of notes that it printed. */
static size_t print_nothing(FILE *out, const struct report *report)
{
	const char *note = report->note_count ? report->notes[0] : "";
	size_t length = strlen(REPORT_NOT_COMPLETE);
	bool is_reason = report->incomplete && strncmp(note, REPORT_NOT_COMPLETE, length) == 0;
	FREE_AT_END char *text = text_format(PREFIX "%s%s", is_reason ? "NOT recorded: " : "",
					     is_reason ? note + length : findings_nothing(report));

	print_lines(out, text, !is_reason || report->verbose);
	return is_reason;
}

/* Returns the number of notes that it printed. */
static size_t print_findings(FILE *out, const struct report *report)
{
	AT_END(findings_finish) struct findings findings = findings_build_merged(report);
	size_t notes = 0;

	if (report->count == 0)
		notes = print_nothing(out, report);
	else if (report->count == 1)
		print_process(out, report, &findings, report->processes[0], NULL);
	else
		print_several(out, report, &findings);
	return notes;
}

int print_text(const struct report *report, const struct judgement *judgement, FILE *out)
{
	bool has_moments = report->count && report->processes[0]->moment_count;
	size_t notes = has_moments ? 0 : print_findings(out, report);

	(void)judgement;
	for (size_t i = 0; i < report->count && has_moments; i++)
		describe_moments(out, report->processes[i], report->verbose);
	for (size_t i = 0; i < report->count && report->verbose; i++)
		describe_all_coverage(out, report->processes[i]);
	if (report->note_count > notes)
		describe_notes(out, (const char *const *)report->notes + notes,
			       report->note_count - notes);
	describe_notes(out, (const char *const *)report->remarks, report->remark_count);
	describe_missing_debuginfo(out, report);
	describe_suppressions(out, report);
	if (report->verbose &&
	    (report->summary.leaked_blocks || report->summary.accumulating_blocks)) {
		fputs("To suppress these leaks, write these lines to a file for --suppressions:\n",
		      out);
		gen_suppressions(report, out, report->verbose);
	}
	return ferror(out) ? -EIO : 0;
}

void print_text_headline(const struct report *report, FILE *out, bool whole)
{
	AT_END(ranks_finish) struct ranks ranks = ranks_find(report);
	AT_END(findings_finish) struct findings findings = findings_build_merged(report);
	struct headline line = headline_of(report, &findings, report->processes, report->count,
					   ranks.count > 1 ? &ranks : NULL, whole);

	if (report->count == 0)
		print_nothing(out, report);
	else
		print_first(out, &line);
}
