/* SPDX-License-Identifier: MIT
 *
 * Prints a line on stderr per interval: live memory of all processes, changes, and call sites
 * that began or stopped growing. Keeps the state of each process between intervals.
 */
#include "tools/periodic.h"

#include <inttypes.h>

#include "report/describe/describe_stack.h"
#include "report/load/load.h"
#include "report/subjects/subject_words.h"
#include "report/symbols/symbolize.h"
#include "report/top/live.h"
#include "report/top/trend.h"
#include "report/util/number.h"
#include "tools/flags.h"
#include "tools/launch/system.h"
#include "tools/ledgers/ledgers.h"
#include "tools/session.h"

/* ---- the suspects of a process: each is printed once, and then only what changed ---- */

/* A suspect that was printed. */
struct told_suspect {
	char *place;
	uint32_t ref;  /* see struct report_suspect */
	uint64_t rate; /* as printed last */
	bool grows;    /* it is a suspect in the current call of update_told() */
	struct told_suspect *next;
};

struct told_suspects { /* starts as { 0 } */
	struct told_suspect *first;
};

static uint64_t rate_of(const struct report_suspect *suspect)
{
	return suspect->bytes_per_step ? suspect->bytes_per_step : suspect->blocks_per_step;
}

static struct told_suspect *find_told(const struct told_suspects *told,
				      const struct report_suspect *suspect)
{
	struct told_suspect *known = told->first;

	while (known && known->ref != suspect->ref)
		known = known->next;
	return known;
}

static void destroy_told(struct told_suspect *known)
{
	free(known->place);
	free(known);
}


static void add_told(struct told_suspects *told, const struct report_suspect *suspect)
{
	struct told_suspect *known = calloc(1, sizeof(*known));

	known->place = PRINTED(to, describe_place_and_caller(to, suspect->site->stack, false));
	known->ref = suspect->ref;
	known->rate = rate_of(suspect);
	known->grows = true;
	known->next = told->first;
	told->first = known;
}

/* Prints "; suspect in pid 12: 1.0 MiB per step at keep (/srv/app.c:24)". */
static void print_suspect(FILE *out, int pid, const char *now, const struct report_suspect *suspect)
{
	fprintf(out, "; suspect in pid %d: %s", pid, now);
	describe_growth_rate(out, suspect);
	fputs(" at ", out);
	describe_place_and_caller(out, suspect->site->stack, false);
}

/* Removes the suspects that do not grow any more, and prints them. */
static void remove_ended(struct told_suspects *told, int pid, FILE *out)
{
	struct told_suspect **at = &told->first;

	while (*at) {
		struct told_suspect *known = *at;

		if (known->grows) {
			at = &known->next;
			continue;
		}
		fprintf(out, "; no longer growing in pid %d: %s", pid, known->place);
		*at = known->next;
		destroy_told(known);
	}
}

/* Prints to OUT what changed since the last call: new suspects, suspects that grow at least twice
 * as fast as printed or at most half as fast, and those that do not grow any more. */
static void update_told(struct told_suspects *told, const struct live *live, FILE *out)
{
	struct report_suspect suspect;
	int pid = live->process->pid;

	for (struct told_suspect *known = told->first; known; known = known->next)
		known->grows = false;
	for (size_t at = 0; live_next_suspect(live, &at, &suspect);) {
		struct told_suspect *known = find_told(told, &suspect);
		uint64_t rate = rate_of(&suspect);

		if (!known) {
			print_suspect(out, pid, "", &suspect);
			add_told(told, &suspect);
			continue;
		}
		known->grows = true;
		if (rate / 2 < known->rate && rate > known->rate / 2)
			continue;
		print_suspect(out, pid, "now ", &suspect);
		known->rate = rate;
	}
	remove_ended(told, pid, out);
}

static void finish_told(struct told_suspects *told)
{
	while (told->first) {
		struct told_suspect *next = told->first->next;

		destroy_told(told->first);
		told->first = next;
	}
}

/* ---- an interval ---- */

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
	update_told(&known->told, live, sums->growing);
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
	struct text_buffer line;
	FILE *out;

	text_buffer_begin(&line);
	out = line.out;
	fputs("gpuleak: after ", out);
	print_elapsed(out, watch->reads * (uint64_t)watch->every_ms);
	if (sums->processes == 0)
		fputs(": no GPU call seen yet", out);
	else
		fprintf(out, ": live %s (%s%s) in %s block%s", SIZE(sums->bytes),
			sums->bytes < before   ? "-"
			: sums->bytes > before ? "+"
					       : "=",
			sums->bytes == before
				? ""
				: SIZE(sums->bytes < before ? before - sums->bytes
							    : sums->bytes - before),
			NUMBER(sums->blocks), plural(sums->blocks));
	fputs(growing, out);
	fputc('\n', out);
	text_buffer_end(&line);
	/* with one write, because the program also writes to stderr */
	fwrite(line.text, 1, line.length, stderr);
	text_buffer_finish(&line);
}

/* Returns true if a line is printed about BYTES of live memory. GROWING: see print_line(). */
static bool has_news(const struct watch *watch, uint64_t bytes, const char *growing)
{
	const uint64_t before = watch->bytes_before;
	const uint64_t most = bytes > before ? bytes : before;
	const uint64_t change = bytes > before ? bytes - before : before - bytes;

	return !opt_values.every_quiet || *growing || change > most / 4;
}

/* Writes a report on the data recorded until now. The file is replaced only by a complete one. */
static void write_report(struct watch *watch, const struct ledger_list *list)
{
	AT_END(session_finish) struct session session;

	session_start(&session);
	if (session_suppress(&session, watch->suppressions) < 0)
		return;
	for (size_t i = 0; i < list->count; i++)
		session_add(&session, list->files[i].path, NULL);
	report_sort(&session.report);
	if (session.report.count && session_write(&session, watch->report) < 0)
		watch->failed = true;
}

void watch_read(struct watch *watch)
{
	AT_END(ledgers_finish) struct ledger_list list = { 0 };
	FREE_AT_END char *growing = NULL;
	struct sums sums = { 0 };

	watch->reads++;
	if (!watch->symbolizer)
		watch->symbolizer = symbolizer_create(0);
	if (ledgers_add_directory(&list, watch->directory) < 0)
		return;
	growing = PRINTED(to,
		sums.growing = to;
		for (size_t i = 0; i < list.count; i++)
			if (process_runs(list.files[i].pid, list.files[i].start_ticks))
				add_ledger(watch, &list.files[i], &sums));
	if (has_news(watch, sums.bytes, growing)) {
		print_line(watch, &sums, growing);
		watch->bytes_before = sums.bytes;
	}
	if (watch->report && !watch->failed && list.count)
		write_report(watch, &list);
}

void watch_finish(struct watch *watch)
{
	while (watch->first) {
		struct watched *next = watch->first->next;

		trend_finish(&watch->first->trend);
		finish_told(&watch->first->told);
		free(watch->first->path);
		free(watch->first);
		watch->first = next;
	}
	symbolizer_destroy(watch->symbolizer);
	*watch = (struct watch){ 0 };
}
