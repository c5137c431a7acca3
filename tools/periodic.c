/* SPDX-License-Identifier: MIT
 *
 * Prints a line on stderr per interval: live memory of all processes, changes, and call sites
 * that began or stopped growing. Keeps the state of each process between intervals.
 */
#include "tools/periodic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/flags.h"
#include "tools/ledgers/ledgers.h"
#include "report/analyze/live.h"
#include "report/load/load.h"
#include "report/util/number.h"
#include "report/util/text_buffer.h"
#include "tools/launch/process.h"
#include "tools/session.h"
#include "report/symbols/symbolize.h"
#include "report/analyze/trend.h"
#include "tools/told_suspects.h"

#define ERROR_SIZE 8192

struct watched { /* one process */
	char *path; /* path of its ledger */
	uint64_t start_real_ns;
	struct trend trend;
	struct told_suspects told;
	struct watched *next;
};

/* The sums of one interval. */
struct sums {
	uint64_t bytes, blocks;
	size_t processes;
	FILE *growing;
};

static struct watched *find_watched(struct watch *watch, const struct ledger_file *file)
{
	struct watched *known = watch->first;

	for (; known; known = known->next)
		if (known->start_real_ns == file->start_real_ns &&
		    strcmp(known->path, file->path) == 0)
			return known;
	known = calloc(1, sizeof(*known));
	known->path = strdup(file->path);
	known->start_real_ns = file->start_real_ns;
	known->next = watch->first;
	watch->first = known;
	return known;
}

static void add_to_sums(struct sums *sums, const struct live *live)
{
	sums->processes++;
	sums->bytes = add_bounded(sums->bytes, live->sum.bytes);
	sums->blocks = add_bounded(sums->blocks, live->sum.blocks);
}

static void add_ledger(struct watch *watch, const struct ledger_file *file, struct sums *sums)
{
	struct watched *known = find_watched(watch, file);
	struct live_options look = { .trend = &known->trend, .step = true };
	struct loaded_ledger ledger;
	struct live *live;
	char error[ERROR_SIZE];

	if (loaded_ledger_open(file->path, &ledger, error, sizeof(error)) < 0)
		return;
	ledger.older_ns = (uint64_t)opt_values.older * 1000000u;
	live = live_build(&ledger, watch->symbolizer, &look);
	add_to_sums(sums, live);
	told_suspects_update(&known->told, live, sums->growing);
	live_destroy(live);
	loaded_ledger_finish(&ledger);
}

/* Prints a duration: "10s", "1h 05m". */
static void print_elapsed(FILE *out, uint64_t ms)
{
	uint64_t s = ms / 1000;

	if (ms < 10000)
		fprintf(out, "%" PRIu64 ".%" PRIu64 "s", s, ms % 1000 / 100);
	else if (s < 60)
		fprintf(out, "%" PRIu64 "s", s);
	else if (s < 3600)
		fprintf(out, "%" PRIu64 "m %02" PRIu64 "s", s / 60, s % 60);
	else
		fprintf(out, "%" PRIu64 "h %02" PRIu64 "m", s / 3600, s / 60 % 60);
}

static void print_line(const struct watch *watch, const struct sums *sums, const char *growing)
{
	uint64_t before = watch->bytes_before;
	char size[NUMBER_MAX], change[NUMBER_MAX], blocks[NUMBER_MAX];
	struct text_buffer line;
	FILE *out;

	text_buffer_begin(&line);
	out = line.out;
	fputs("gpuleak: after ", out);
	print_elapsed(out, watch->reads * (uint64_t)watch->every_ms);
	if (sums->processes == 0)
		fputs(": no GPU call seen yet", out);
	else
		fprintf(out, ": live %s (%s%s) in %s block%s", format_size(sums->bytes, size),
			sums->bytes < before   ? "-"
			: sums->bytes > before ? "+"
					       : "=",
			sums->bytes == before
				? ""
				: format_size(sums->bytes < before ? before - sums->bytes
								   : sums->bytes - before,
					      change),
			format_number(sums->blocks, blocks), plural(sums->blocks));
	fputs(growing, out);
	fputc('\n', out);
	text_buffer_end(&line);
	/* with one write, because the program also writes to stderr */
	fwrite(line.text, 1, line.length, stderr);
	text_buffer_finish(&line);
}

/* Writes a report on the data recorded until now. The file is replaced only by a complete one. */
static void write_report(struct watch *watch, const struct ledger_list *list)
{
	struct session session;

	session_start(&session);
	if (session_suppress(&session, watch->suppressions) == 0) {
		for (size_t i = 0; i < list->count; i++)
			session_add(&session, list->files[i].path, NULL);
		report_sort(&session.report);
		if (session.report.count && session_write(&session, watch->report) < 0)
			watch->failed = true;
	}
	session_finish(&session);
}

void watch_read(struct watch *watch)
{
	struct ledger_list list = { 0 };
	struct text_buffer growing;
	struct sums sums = { 0 };

	watch->reads++;
	if (!watch->symbolizer)
		watch->symbolizer = symbolizer_create(0);
	if (ledgers_add_directory(&list, watch->directory) < 0)
		return;
	text_buffer_begin(&growing);
	sums.growing = growing.out;
	for (size_t i = 0; i < list.count; i++)
		if (process_runs(list.files[i].pid, list.files[i].start_ticks))
			add_ledger(watch, &list.files[i], &sums);
	text_buffer_end(&growing);
	print_line(watch, &sums, growing.text);
	text_buffer_finish(&growing);
	watch->bytes_before = sums.bytes;
	if (watch->report && !watch->failed && list.count)
		write_report(watch, &list);
	ledgers_finish(&list);
}

void watch_finish(struct watch *watch)
{
	while (watch->first) {
		struct watched *next = watch->first->next;

		trend_finish(&watch->first->trend);
		told_suspects_finish(&watch->first->told);
		free(watch->first->path);
		free(watch->first);
		watch->first = next;
	}
	symbolizer_destroy(watch->symbolizer);
	*watch = (struct watch){ 0 };
}
