/* SPDX-License-Identifier: MIT
 *
 * Metrics for many processes: what each process is, with its rank, and its live memory by line. The
 * number of series is bounded, and the rest of the memory is in one series, so a sum over the lines
 * of a process is complete. Must not change series that other files write.
 */
#include "report/format/metrics_fleet.h"

#include <stdlib.h>
#include <string.h>

#include "report/describe/describe_stack.h"
#include "report/model/model.h"
#include "report/model/model_suballocations.h"
#include "report/subjects/figures.h"
#include "report/util/memory.h"
#include "report/util/number.h"
#include "report/util/path.h"
#include "report/util/report_arena.h"

#define LINES_MAX 1000u /* of all processes */
#define LINES_OF_ONE_MAX 20u

struct fleet_line {
	const char *cache, *name; /* cache NULL: the rest of a process */
	int device;
	uint64_t bytes;
};

struct fleet_lines {
	struct fleet_line *list;
	size_t count;
	struct report_arena arena;
};

/* Returns "embed (model.py:40)". */
static const char *name_of(struct report_arena *arena, const struct report_stack *stack)
{
	const struct report_frame *frame = report_stack_culprit(stack);
	const char *function = frame && frame->function ? frame->function : "unknown";

	if (!frame || !(frame->file || frame->module))
		return function;
	if (!frame->file)
		return arena_printf(arena, "%s (%s)", function, path_last(frame->module));
	return arena_printf(arena, "%s (%s:%d)", function, path_last(frame->file),
			    (int)frame->line);
}

static void add(struct fleet_lines *lines, const struct report_leak *leak, uint64_t bytes)
{
	if (!bytes)
		return;
	*LIST_ADD(lines->list, lines->count) = (struct fleet_line){
		.cache = leak->cache ? leak->cache : "", .device = leak->site->device,
		.name = leak->used_bytes ? "unused" : name_of(&lines->arena, leak->site->stack),
		.bytes = bytes,
	};
}

/* Adds COUNT groups of blocks, without the bytes that their suballocations use. */
static void add_groups(struct fleet_lines *lines, const struct report_leak *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		add(lines, &list[i], less(list[i].bytes, list[i].used_bytes));
}

static int compare_keys(const void *left, const void *right)
{
	const struct fleet_line *a = left, *b = right;

	return strcmp(a->name, b->name) ?: strcmp(a->cache, b->cache)
	       ?: compare_ints(a->device, b->device);
}

static int compare_bytes(const void *left, const void *right)
{
	const struct fleet_line *a = left, *b = right;

	return compare_numbers(b->bytes, a->bytes) ?: compare_keys(a, b);
}

static void join(struct fleet_lines *lines)
{
	size_t kept = 0;

	SORT(lines->list, lines->count, compare_keys);
	for (size_t i = 1; i < lines->count; i++) {
		struct fleet_line *to = &lines->list[kept], *from = &lines->list[i];

		if (compare_keys(to, from))
			lines->list[++kept] = *from;
		else
			to->bytes = add_bounded(to->bytes, from->bytes);
	}
	lines->count = lines->count ? kept + 1 : 0;
	SORT(lines->list, lines->count, compare_bytes);
}

static struct fleet_lines lines_of(const struct report_process *process)
{
	struct fleet_lines lines = { 0 };

	add_groups(&lines, process->leaks, process->leak_count);
	add_groups(&lines, process->suppressed, process->suppressed_count);
	add_groups(&lines, process->cached, process->cached_count);
	add_groups(&lines, process->kept, process->kept_count);
	for (size_t i = 0; i < process->suballocation_count; i++)
		add(&lines, &process->suballocations[i].live,
		    report_suballocated_bytes(&process->suballocations[i]));
	join(&lines);
	return lines;
}

static void begin(FILE *out, const char *name, const struct report *report, size_t i)
{
	const struct report_process *process = report->processes[i];
	char rank[NUMBER_MAX] = "";

	metric_begin(out, name, report, i);
	if (process->ranked)
		snprintf(rank, sizeof(rank), "%d", process->rank);
	metric_label(out, "rank", rank);
}

static void print_line(FILE *out, const struct report *report, size_t i,
		       const struct fleet_line *line)
{
	begin(out, "gpuleak_line_bytes", report, i);
	if (line->cache) {
		metric_device(out, line->device);
		metric_label(out, "cache", line->cache);
	}
	metric_label(out, "line", line->name);
	metric_end(out, line->bytes);
}

static size_t room_for_lines(const struct report *report)
{
	size_t room = LINES_MAX / metric_processes(report);

	return room < LINES_OF_ONE_MAX ? room : LINES_OF_ONE_MAX;
}

static void print_lines(FILE *out, const struct report *report, size_t i)
{
	struct fleet_lines lines = lines_of(report->processes[i]);
	struct fleet_line rest = { .name = "other" };
	size_t room = room_for_lines(report);

	for (size_t at = 0; at < lines.count; at++) {
		if (at < room)
			print_line(out, report, i, &lines.list[at]);
		else
			rest.bytes = add_bounded(rest.bytes, lines.list[at].bytes);
	}
	print_line(out, report, i, &rest);
	free(lines.list);
	arena_finish(&lines.arena);
}

static void print_process_info(FILE *out, const struct report *report, size_t i)
{
	begin(out, "gpuleak_process_info", report, i);
	metric_label(out, "host", report->processes[i]->host ?: "");
	metric_label(out, "ended", report_ended_word(report->processes[i]->ended));
	metric_end(out, 1);
}

void print_fleet_metrics(FILE *out, const struct report *report)
{
	metric_family(out, "gpuleak_process_info", "gauge", "1 for each process.");
	for (size_t i = 0; i < metric_processes(report); i++)
		print_process_info(out, report, i);
	metric_family(out, "gpuleak_line_bytes", "gauge",
		      "Live bytes by line, only of the largest lines; the rest is \"other\".");
	for (size_t i = 0; i < metric_processes(report); i++)
		print_lines(out, report, i);
}
