/* SPDX-License-Identifier: MIT
 *
 * The verdict, then what to fix, then what to know. Whoever is woken by a job that died
 * reads the first line only: it names the largest leak and the application's own line.
 */
#include "print_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "escape.h"
#include "model.h"
#include "number.h"
#include "suppress.h"
#include "text_caches.h"
#include "text_coverage.h"
#include "text_error.h"
#include "text_held.h"
#include "text_history.h"
#include "text_objects.h"
#include "text_pool.h"
#include "text_released.h"
#include "text_stack.h"

#define LEAKS_MAX 1000 /* more than anybody reads; JSON has all of them */

/* What a first line is about: one process, or all of them. */
struct headline {
	const struct report_summary *summary;
	const struct report_process *worst_in, *error_in; /* NULL: no leak, no error */
	size_t leaks;
	size_t processes, leaking;
	const struct report_process *only; /* the one process, or NULL */
	struct report_process *const *all;
	int running, incomplete;
};

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void print_counted(FILE *out, uint64_t count, const char *what)
{
	char number[NUMBER_MAX];

	fprintf(out, "%s %s%s", format_number(count, number), what, plural(count));
}

static void print_who(FILE *out, const struct headline *line)
{
	if (line->only)
		text_process(out, line->only);
	else if (line->leaks && line->leaking != line->processes)
		fprintf(out, "%zu of %zu processes", line->leaking, line->processes);
	else
		fprintf(out, "%zu processes", line->processes);
}

/* What became of the blocks that are no leaks, of COUNT PROCESSES together. */
static void print_fates(FILE *out, const struct report_summary *sum,
			struct report_process *const *processes, size_t count)
{
	uint64_t live = add_bounded(sum->leaked_blocks,
				    add_bounded(sum->suppressed_blocks, sum->cached_blocks));
	uint64_t known = add_bounded(add_bounded(sum->freed_blocks, live),
				     add_bounded(sum->with_context_blocks, sum->held_blocks));
	char number[NUMBER_MAX];

	if (sum->freed_blocks == sum->allocated_blocks)
		fputs("all freed", out);
	else
		fprintf(out, "%s freed", format_number(sum->freed_blocks, number));
	if (sum->late_blocks)
		fprintf(out, " (%s of them after the driver had shut down)",
			format_number(sum->late_blocks, number));
	if (sum->with_context_blocks)
		fprintf(out, ", %s released with their context",
			format_number(sum->with_context_blocks, number));
	if (sum->held_blocks)
		fprintf(out, ", %s released but still held",
			format_number(sum->held_blocks, number));
	if (sum->suppressed_blocks)
		fprintf(out, ", %s suppressed", format_number(sum->suppressed_blocks, number));
	text_caches_brief(out, processes, count);
	if (known < sum->allocated_blocks)
		fprintf(out, ", %s ended unseen",
			format_number(sum->allocated_blocks - known, number));
}

static void print_clean(FILE *out, const struct headline *line)
{
	const struct report_summary *sum = line->summary;
	char size[NUMBER_MAX];

	fprintf(out, "no leaks%s: ",
		line->incomplete ? " found, but not everything was recorded" : "");
	if (sum->allocated_blocks == 0) {
		fputs("nothing allocated by ", out);
		print_who(out, line);
		return;
	}
	print_counted(out, sum->allocated_blocks, "block");
	fprintf(out, " (%s) allocated by ", format_size(sum->allocated_bytes, size));
	print_who(out, line);
	fputs(", ", out);
	print_fates(out, sum, line->all, line->processes);
	fprintf(out, ", peak%s %s", line->only ? "" : "s together",
		format_size(sum->peak_bytes, size));
}

static void print_leak_total(FILE *out, const struct headline *line)
{
	const struct report_leak *worst = &line->worst_in->leaks[0];
	char size[NUMBER_MAX];

	print_counted(out, line->leaks, "leak");
	fputs(", ", out);
	print_counted(out, line->summary->leaked_blocks, "block");
	fputs(", ", out);
	text_bytes(out, line->summary->leaked_bytes);
	fprintf(out, " %s by ", line->running ? "not freed so far" : "never freed");
	print_who(out, line);
	fprintf(out, ", worst: %s at ", format_size(worst->bytes, size));
	text_place_and_caller(out, worst->stack);
	if (!line->only) {
		fputs(" in ", out);
		text_process(out, line->worst_in);
	}
}

static void print_headline(FILE *out, const struct headline *line)
{
	fputs("gpuleak: ", out);
	if (line->summary->errors) {
		print_counted(out, line->summary->errors, "error");
		fputs(line->leaks ? ", " : " by ", out);
		if (!line->leaks)
			print_who(out, line);
		if (!line->leaks && line->error_in) {
			fputs(", first: ", out);
			text_error_brief(out, &line->error_in->errors[0]);
		}
		if (!line->leaks)
			fputs("; ", out);
	}
	if (line->leaks)
		print_leak_total(out, line);
	else
		print_clean(out, line);
	fputc('\n', out);
}

static void add_to_headline(struct headline *line, const struct report_process *process)
{
	line->processes++;
	line->leaks += process->leak_count;
	line->leaking += process->leak_count != 0;
	line->running |= process->ended == REPORT_RUNNING;
	line->incomplete |= process->incomplete;
	if (process->leak_count &&
	    (!line->worst_in || process->leaks[0].bytes > line->worst_in->leaks[0].bytes))
		line->worst_in = process;
	if (process->error_count && !line->error_in)
		line->error_in = process;
}

static void print_leak(FILE *out, const struct report_process *process,
		       const struct report_leak *leak)
{
	fputs(process->ended == REPORT_RUNNING ? "\nNot freed so far: " : "\nLeak of ", out);
	text_bytes(out, leak->bytes);
	fputs(" in ", out);
	print_counted(out, leak->blocks, "block");
	fputs(" (", out);
	text_kind(out, leak->kind);
	fputs(", ", out);
	print_escaped(out, leak->api);
	if (leak->device >= 0)
		fprintf(out, ", device %d", leak->device);
	fputs("), allocated at:\n", out);
	text_stack(out, leak->stack);
	text_history(out, leak->history, leak->blocks);
}

static void print_leaks(FILE *out, const struct report_process *process)
{
	uint64_t bytes = 0, blocks = 0;
	size_t i;

	for (i = 0; i < process->leak_count && i < LEAKS_MAX; i++)
		print_leak(out, process, &process->leaks[i]);
	if (i == process->leak_count)
		return;
	for (; i < process->leak_count; i++) {
		bytes = add_bounded(bytes, process->leaks[i].bytes);
		blocks = add_bounded(blocks, process->leaks[i].blocks);
	}
	fputs("\nAnd ", out);
	print_counted(out, process->leak_count - LEAKS_MAX, "smaller leak");
	fputs(": ", out);
	text_bytes(out, bytes);
	fputs(" in ", out);
	print_counted(out, blocks, "block");
	fputs("; --format json lists all\n", out);
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
	text_process(out, process);
	fputs(": ", out);
	print_counted(out, sum->allocated_blocks, "block");
	fprintf(out, " (%s) allocated, ", format_size(sum->allocated_bytes, size));
	print_fates(out, sum, &process, 1);
	if (sum->leaked_blocks)
		fprintf(out, ", %s %s (%s)", format_number(sum->leaked_blocks, number),
			process->ended == REPORT_RUNNING ? "not freed so far" : "leaked",
			format_size(sum->leaked_bytes, size));
	fprintf(out, ", peak %s; ", format_size(sum->peak_bytes, size));
	text_ended(out, process);
	fputc('\n', out);
}

static int print_process(FILE *out, struct report_process *process, int verbose)
{
	struct headline line = { .summary = &process->summary, .only = process,
				 .all = &process };
	int r, wrong;

	add_to_headline(&line, process);
	print_headline(out, &line);
	print_leaks(out, process);
	r = text_errors(out, process);
	if (r < 0)
		return r;
	text_released(out, process, verbose);
	if (verbose)
		text_objects(out, process);
	wrong = process->leak_count || process->summary.errors || process->released.held_count;
	if (wrong || verbose)
		text_caches(out, process, verbose);
	text_pool(out, process, wrong || verbose);
	if (wrong) {
		print_last_line(out, process);
		text_coverage(out, process);
	}
	if (wrong || verbose)
		text_held(out, process, verbose);
	print_notes(out, process->notes, process->note_count);
	return 0;
}

static void print_suppressions(FILE *out, const struct suppressions *suppressions)
{
	size_t count = suppressions_size(suppressions), used = 0;
	char blocks[NUMBER_MAX], bytes[NUMBER_MAX];

	for (size_t i = 0; i < count; i++) {
		struct suppression_use use = suppressions_use(suppressions, i);

		if (!use.matched)
			continue;
		if (used++ == 0)
			fprintf(out, "Suppressions used:\n%10s %20s  pattern\n", "blocks", "bytes");
		fprintf(out, "%10s %20s  ", format_number(use.blocks, blocks),
			format_number(use.bytes, bytes));
		print_escaped(out, use.pattern);
		fputc('\n', out);
	}
	for (size_t i = 0; i < count; i++) {
		struct suppression_use use = suppressions_use(suppressions, i);

		if (use.matched)
			continue;
		fprintf(out, "Suppression in line %u matched nothing: leak:", use.line);
		print_escaped(out, use.pattern);
		fputc('\n', out);
	}
}

static int print_processes(FILE *out, const struct report *report)
{
	struct headline line = { .summary = &report->summary, .incomplete = report->incomplete,
				 .all = report->processes };
	int r = 0;

	if (report->count == 0) {
		fputs("gpuleak: nothing was recorded: no GPU memory call was seen\n", out);
		return 0;
	}
	if (report->count == 1)
		return print_process(out, report->processes[0], report->verbose);
	for (size_t i = 0; i < report->count; i++)
		add_to_headline(&line, report->processes[i]);
	print_headline(out, &line);
	for (size_t i = 0; i < report->count && r == 0; i++) {
		fputc('\n', out);
		r = print_process(out, report->processes[i], report->verbose);
	}
	return r;
}

int print_text(const struct report *report, const struct judgement *judgement, FILE *out)
{
	int r;

	(void)judgement;
	text_stack_whole(report->verbose);
	r = print_processes(out, report);
	if (r < 0)
		return r;
	for (size_t i = 0; i < report->count && report->verbose; i++)
		text_coverage_all(out, report->processes[i]);
	print_notes(out, (const char *const *)report->notes, report->note_count);
	print_suppressions(out, report->suppressions);
	return ferror(out) ? -EIO : 0;
}
