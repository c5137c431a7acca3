/* SPDX-License-Identifier: MIT
 *
 * Formats a frame of `gpuleak top` as lines: process, sums, kinds, pools, call sites. On a narrow
 * screen leaves out columns and shortens paths. Does not cut lines.
 */
#include "report/subjects/formats.h"

#include <inttypes.h>

#include "ledger/kind_table.h"
#include "report/describe/kinds.h"
#include "report/model/growth_rule.h"
#include "report/model/model_pool.h"
#include "report/model/model_suballocations.h"
#include "report/top/live.h"
#include "report/util/short_line.h"

#define KIND_COLUMNS 24
#define SIZE_COLUMNS 11
#define BLOCKS_COLUMNS 10
#define DEVICE_COLUMNS 8
#define POOL_COLUMNS 125 /* of the whole table of pools */
#define WHERE_LEAST 24   /* columns for a place that are left before the others */
#define SITES_FEW 10

struct shown { /* the columns of a table, besides those that it always has */
	bool blocks, growth, rate;
};

/* Chooses from the columns of WANTED those that fit VIEW beside others of USED columns. Always
 * keeps the column that sorts the call sites. */
static struct shown choose(const struct live_view *view, struct shown wanted, size_t used)
{
	const struct { bool *shown; size_t width; enum live_order order; } columns[] = {
		{ &wanted.rate, SIZE_COLUMNS + 1, LIVE_BY_RATE },
		{ &wanted.blocks, BLOCKS_COLUMNS + 1, LIVE_BY_BLOCKS },
		{ &wanted.growth, SIZE_COLUMNS + 2, LIVE_BY_GROWTH },
	};

	for (size_t i = 0; i < 3; i++)
		used += *columns[i].shown ? columns[i].width : 0;
	for (size_t i = 0; i < 3 && view->columns && used > view->columns; i++) {
		if (!*columns[i].shown || columns[i].order == view->order)
			continue;
		*columns[i].shown = false;
		used -= columns[i].width;
	}
	return wanted;
}

/* Prints TEXT and MORE. If they do not fit behind USED columns, prints only TEXT, shortened. */
static void print_fitting(FILE *out, const struct live_view *view, size_t used, char *text,
			  const char *more)
{
	const size_t room = view->columns > used + 8 ? view->columns - used : 8;
	int length;

	if (!view->columns || strlen(text) + strlen(more) <= room) {
		fprintf(out, "%s%s\n", text, more);
		return;
	}
	short_line(text, room);
	length = (int)strlen(text);
	fprintf(out, "%.*s\n", length - (length && text[length - 1] == ','), text);
}

/* Returns the number of columns for the name of a kind. */
static int kind_columns(const struct live_view *view)
{
	const size_t others = DEVICE_COLUMNS + SIZE_COLUMNS + 1;

	if (!view->columns || view->columns >= others + KIND_COLUMNS)
		return KIND_COLUMNS;
	return view->columns > others + 8 ? (int)(view->columns - others) : 8;
}

/* Prints the words for KIND in WIDTH columns. */
static void print_kind(FILE *out, const char *kind, int width)
{
	FREE_AT_END char *words = PRINTED(to, describe_kind(to, kind));
	const char *at = words;

	for (int column = 0; column < width; column++) {
		size_t length = utf8_length(at);

		fprintf(out, "%.*s", length ? (int)length : 1, length ? at : " ");
		at += length;
	}
}

static void print_device(FILE *out, int device)
{
	if (device >= 0)
		fprintf(out, "%6d  ", device);
	else
		fputs("     -  ", out);
}

static void print_size(FILE *out, uint64_t bytes)
{
	fprintf(out, " %*s", SIZE_COLUMNS, SIZE(bytes));
}

/* Writes "+4.0 MiB", "-512 bytes" or "=". */
static const char *format_growth(uint64_t now, uint64_t before, char ret[NUMBER_MAX + 1])
{
	if (now == before)
		return "=";
	ret[0] = now > before ? '+' : '-';
	format_size(now > before ? now - before : before - now, ret + 1);
	return ret;
}

#define GROWTH(now, before) format_growth(now, before, (char[NUMBER_MAX + 1]){ 0 })

/* Prints the cells of blocks and growth that are shown. */
static void print_cells(FILE *out, struct shown shown, const char *blocks, const char *growth)
{
	if (shown.blocks)
		fprintf(out, " %*s", BLOCKS_COLUMNS, blocks);
	if (shown.growth)
		fprintf(out, " %*s", SIZE_COLUMNS + 1, growth);
}

/* Breaks LINE behind a comma or semicolon where it exceeds COLUMNS. */
static void break_line(char *line, size_t columns)
{
	while (strlen(line) > columns) {
		size_t at = columns;

		while (at > 1 && !(line[at] == ' ' && strchr(",;", line[at - 1])))
			at--;
		if (at <= 1)
			return;
		line[at] = '\n';
		line += at + 1;
	}
}

static void print_sums(FILE *out, const struct live *now, const struct live *earlier,
		       const struct live_view *view)
{
	const struct report_summary *sum = &now->process->summary;
	FREE_AT_END char *line = PRINTED(to,
		fprintf(to, "live %s", SIZE(now->sum.bytes));
		if (earlier)
			fprintf(to, " (%s)", GROWTH(now->sum.bytes, earlier->sum.bytes));
		fprintf(to, " in %s, peak %s; %s allocated so far (%s)",
			COUNT(now->sum.blocks, "block"), SIZE(sum->peak_bytes),
			NUMBER(sum->allocated_blocks), SIZE(sum->allocated_bytes));
		if (sum->errors)
			fprintf(to, ", %s", COUNT(sum->errors, "invalid free")));

	if (view->columns)
		break_line(line, view->columns);
	fprintf(out, "%s\n", line);
}

static void print_kinds(FILE *out, const struct live *now, const struct live *earlier,
			const struct live_view *view)
{
	const int width = kind_columns(view);
	const struct shown shown = choose(view, (struct shown){ true, earlier, false },
					  DEVICE_COLUMNS + (size_t)width + SIZE_COLUMNS + 1);

	fprintf(out, "\ndevice  %-*s %*s", width, "kind", SIZE_COLUMNS, "live");
	print_cells(out, shown, "blocks", "growth");
	fputc('\n', out);
	EACH_ITEM(now->kinds, now->kind_count, kind) {
		print_device(out, kind->device);
		print_kind(out, kind->kind, width);
		print_size(out, kind->sum.bytes);
		print_cells(out, shown, NUMBER(kind->sum.blocks),
			    GROWTH(kind->sum.bytes, live_kind_in(earlier, kind).bytes));
		fputc('\n', out);
	}
}

/* Returns the hits of the same pool in the previous frame. Pools are never removed. */
static uint64_t hits_before(const struct live *earlier, const struct report_pool *pool)
{
	const struct report_pools *pools = earlier ? earlier->process->pools : NULL;

	for (size_t i = 0; pools && i < pools->count; i++)
		if (pools->pools[i].device == pool->device &&
		    strcmp(pools->pools[i].kind, pool->kind) == 0)
			return pools->pools[i].count.hits;
	return 0;
}

/* Returns the number of sizes of a pool that fit. */
static size_t pool_sizes(const struct live_view *view)
{
	const size_t used = DEVICE_COLUMNS + (size_t)kind_columns(view) + SIZE_COLUMNS + 1;

	return !view->columns		? 4
	       : view->columns <= used ? 1
				       : 1 + (view->columns - used) / (SIZE_COLUMNS + 1);
}

/* Returns true if the table of pools has its columns behind the sizes. */
static bool has_pool_calls(const struct live_view *view)
{
	return !view->columns || view->columns >= POOL_COLUMNS;
}

static void print_pool(FILE *out, const struct report_pool *pool, const struct live *earlier,
		       double seconds, const struct live_view *view)
{
	const struct ledger_pool *count = &pool->count;
	const uint64_t sizes[] = { report_pool_used(count), count->cached, count->pending,
				   count->reserved };
	uint64_t before = hits_before(earlier, pool);

	print_device(out, pool->device);
	print_kind(out, pool->kind, kind_columns(view));
	for (size_t i = 0; i < 4 && i < pool_sizes(view); i++)
		print_size(out, sizes[i]);
	if (has_pool_calls(view) && earlier && seconds > 0)
		fprintf(out, " %10.0f",
			(double)(count->hits > before ? count->hits - before : 0) / seconds);
	if (has_pool_calls(view))
		fprintf(out, " %7s %14s %10s", PERCENT(count->hits, report_pool_allocations(count)),
			NUMBER(report_pool_calls_saved(count)), NUMBER(count->waits));
	if (pool->off)
		fputs("  turned itself off", out);
	fputc('\n', out);
}

static void print_pools(FILE *out, const struct live *now, const struct live *earlier,
			double seconds, const struct live_view *view)
{
	static const char *const titles[] = { "used", "cached", "pending", "reserved" };
	const struct report_pools *pools = now->process->pools;
	char title[64];

	if (!pools || (!pools->count && strcmp(pools->mode, "off") == 0))
		return;
	snprintf(title, sizeof(title), "pool (%s%s)", pools->mode,
		 pools->downgraded ? ", but strict is used" : "");
	fprintf(out, "\n%-*s", DEVICE_COLUMNS + kind_columns(view), title);
	for (size_t i = 0; i < 4 && i < pool_sizes(view); i++)
		fprintf(out, " %*s", SIZE_COLUMNS, titles[i]);
	if (has_pool_calls(view) && earlier && seconds > 0)
		fprintf(out, " %10s", "hits/s");
	if (has_pool_calls(view))
		fprintf(out, " %7s %14s %10s", "hits", "calls saved", "waits");
	fputc('\n', out);
	for (size_t i = 0; i < pools->count; i++)
		print_pool(out, &pools->pools[i], earlier, seconds, view);
}

static void print_rate(FILE *out, const struct live_site *site, double seconds)
{
	double rate = site->allocated > site->allocated_before
			      ? (double)(site->allocated - site->allocated_before) / seconds
			      : 0;

	print_size(out, rate < 1.8e19 ? (uint64_t)rate : UINT64_MAX);
}

static void print_sites(FILE *out, const struct live *now, const struct live *earlier,
			double seconds, const struct live_view *view)
{
	const size_t live = SIZE_COLUMNS + 1;
	const struct shown shown = choose(view,
		(struct shown){ true, earlier, earlier && seconds > 0 }, live + 2 + WHERE_LEAST);
	const size_t used = live + 2 + (shown.blocks ? BLOCKS_COLUMNS + 1 : 0) +
			    (shown.growth ? SIZE_COLUMNS + 2 : 0) +
			    (shown.rate ? SIZE_COLUMNS + 1 : 0);

	fprintf(out, "\n%*s", (int)live, "live");
	print_cells(out, shown, "blocks", "growth");
	if (shown.rate)
		fprintf(out, " %*s", SIZE_COLUMNS, "allocated/s");
	fputs("  where\n", out);
	for (size_t i = 0; i < now->site_count && i < view->sites; i++) {
		const struct live_site *site = &now->sites[i];
		FREE_AT_END char *api = PRINTED(to, eprintf(to, ", %s", site->site->api));
		FREE_AT_END char *where = PRINTED(to,
			describe_place_and_caller(to, site->site->stack, false);
			describe_range(to, site->site);
			if (site->site->stack->cache)
				eprintf(to, ", held by the %s", site->site->stack->cache));

		print_size(out, site->sum.bytes);
		print_cells(out, shown, NUMBER(site->sum.blocks),
			    GROWTH(site->sum.bytes, site->before.bytes));
		if (shown.rate)
			print_rate(out, site, seconds);
		fputs("  ", out);
		print_fitting(out, view, used, where, api);
	}
	if (now->site_count > view->sites)
		fprintf(out, "and %s more\n", NUMBER(now->site_count - view->sites));
}

/* Prints "inside the PyTorch caching allocator: 12.0 KiB in 3 tensors" for each pool. */
static void print_inside(FILE *out, const struct report_process *process)
{
	struct suballocation_pool pools[SUBALLOCATION_POOLS_MAX];
	size_t count = suballocation_pools(process, pools);

	for (size_t i = 0; i < count; i++) {
		fputc('\n', out);
		eprintf(out, "inside the %s: %s in %s\n",
			pools[i].cache ? pools[i].cache : "blocks of a cache", SIZE(pools[i].bytes),
			COUNT(pools[i].blocks, suballocation_word(pools[i].cache)));
	}
}

/* Prints the first COUNT call sites of suballocations: what accumulates, then the largest. */
static void print_suballocations(FILE *out, const struct report_process *process, size_t count,
				 const struct live_view *view)
{
	if (!process->suballocation_count)
		return;
	print_inside(out, process);
	fprintf(out, "%*s %10s  where\n", SIZE_COLUMNS + 1, "live", "number");
	for (size_t i = 0; i < process->suballocation_count && i < count; i++) {
		const struct report_suballocations *site = &process->suballocations[i];
		FREE_AT_END char *where = PRINTED(to,
			describe_place_and_caller(to, site->live.site->stack, false);
			describe_range(to, site->live.site);
			if (site->trend != TREND_UNKNOWN) {
				fputs(site->trend == TREND_ACCUMULATING ? ", accumulating: " : ", ",
				      to);
				describe_trend(to, process, site);
			});

		print_size(out, site->live.bytes);
		fprintf(out, " %10s  ", NUMBER(site->live.blocks));
		print_fitting(out, view, SIZE_COLUMNS + BLOCKS_COLUMNS + 4, where, "");
	}
	if (process->suballocation_count > count)
		fprintf(out, "and %s more\n", NUMBER(process->suballocation_count - count));
}

/* Returns true if there is an object that is not a context. Every CUDA program has contexts. */
static bool has_objects(const struct live *now)
{
	for (size_t i = now->site_count; i < now->site_count + now->object_count; i++)
		if (now->sites[i].sum.blocks && !strstr(now->sites[i].site->kind, "context"))
			return true;
	return false;
}

/* Prints "objects: 3 streams (+1), 8 events": the objects that are not memory, by kind. */
static void print_objects(FILE *out, const struct live *now, const struct live *earlier)
{
	const struct live_site *first = now->sites + now->site_count;
	const struct live_site *end = first + now->object_count;
	const char *before = "\nobjects: ";

	for (const struct kind *kind = kinds; has_objects(now) && kind->name[0]; kind++) {
		uint64_t count = 0, was = 0;

		for (const struct live_site *site = first; site < end; site++) {
			if (strcmp(site->site->kind, kind->name) != 0)
				continue;
			count = add_bounded(count, site->sum.blocks);
			was = add_bounded(was, site->before.blocks);
		}
		if (!count && !was)
			continue;
		fprintf(out, "%s%s", before, OBJECTS(count, kind->name));
		before = ", ";
		if (earlier && count != was)
			fprintf(out, " (%+" PRId64 ")", (int64_t)(count - was));
	}
	if (*before == ',')
		fputc('\n', out);
}

/* Prints each suspect on a line of its own. */
static void print_suspects(FILE *out, const struct live *live, const struct live_view *view)
{
	struct report_suspect suspect;
	const char *before = "\n";

	for (size_t at = 0; live_next_suspect(live, &at, &suspect); before = "") {
		FREE_AT_END char *line = PRINTED(to,
			fputs("suspect: ", to);
			describe_growth_rate(to, &suspect);
			fputs(" at ", to);
			describe_place_and_caller(to, suspect.site->stack, false));

		fputs(before, out);
		print_fitting(out, view, 0, line, "");
	}
}

void text_live(FILE *out, const struct live *now, const struct live *earlier, double seconds,
	       const struct live_view *view)
{
	const size_t sites = view->sites;

	eprintf(out, "gpuleak top: %s (pid %d)\n", now->process->program, now->process->pid);
	print_sums(out, now, earlier, view);
	print_kinds(out, now, earlier, view);
	print_pools(out, now, earlier, seconds, view);
	print_objects(out, now, earlier);
	print_suspects(out, now, view);
	/* a screen has room for about SITES lines, and the call sites of blocks need some of
	 * them */
	print_suballocations(out, now->process, sites > SITES_FEW ? sites / 2 : sites, view);
	print_sites(out, now, earlier, seconds, view);
}
