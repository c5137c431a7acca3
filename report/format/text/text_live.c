/* SPDX-License-Identifier: MIT
 *
 * Formats a frame of `gpuleak top` as lines: process, sums, kinds, pools, call sites. Does not
 * cut lines to the width of the screen.
 */
#include "report/subjects/formats.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "ledger/kind_table.h"
#include "report/describe/format_place.h"
#include "report/util/escape.h"
#include "report/top/live.h"
#include "report/model/model_pool.h"
#include "report/model/model_suballocations.h"
#include "report/model/growth_rule.h"
#include "report/util/number.h"
#include "report/util/text_buffer.h"
#include "report/describe/describe_stack.h"
#include "report/describe/kinds.h"
#include "report/subjects/subject_words.h"

#define KIND_COLUMNS 24
#define SIZE_COLUMNS 11
#define SITES_FEW 10

/* Prints the words for KIND as a column. */
static void print_kind(FILE *out, const char *kind)
{
	FREE_AT_END char *words = PRINTED(to, describe_kind(to, kind));
	const char *at = words;

	for (int column = 0; column < KIND_COLUMNS; column++) {
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

/* Prints TEXT in the column for growth, which the first frame does not have. */
static void print_growth(FILE *out, const struct live *earlier, const char *text)
{
	if (earlier)
		fprintf(out, " %*s", SIZE_COLUMNS + 1, text);
}

static void print_sums(FILE *out, const struct live *now, const struct live *earlier)
{
	const struct report_summary *sum = &now->process->summary;

	fprintf(out, "live %s", SIZE(now->sum.bytes));
	if (earlier)
		fprintf(out, " (%s)", GROWTH(now->sum.bytes, earlier->sum.bytes));
	fprintf(out, " in %s, peak %s; %s allocated so far (%s)", COUNT(now->sum.blocks, "block"),
		SIZE(sum->peak_bytes), NUMBER(sum->allocated_blocks), SIZE(sum->allocated_bytes));
	if (sum->errors)
		fprintf(out, ", %s", COUNT(sum->errors, "invalid free"));
	fputc('\n', out);
}

static void print_kinds(FILE *out, const struct live *now, const struct live *earlier)
{
	fprintf(out, "\ndevice  %-*s %*s %10s", KIND_COLUMNS, "kind", SIZE_COLUMNS, "live",
		"blocks");
	print_growth(out, earlier, "growth");
	fputc('\n', out);
	for (size_t i = 0; i < now->kind_count; i++) {
		const struct live_kind *kind = &now->kinds[i];

		print_device(out, kind->device);
		print_kind(out, kind->kind);
		print_size(out, kind->sum.bytes);
		fprintf(out, " %10s", NUMBER(kind->sum.blocks));
		print_growth(out, earlier,
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

static void print_pool(FILE *out, const struct report_pool *pool, const struct live *earlier,
		       double seconds)
{
	const struct ledger_pool *count = &pool->count;
	uint64_t before = hits_before(earlier, pool);

	print_device(out, pool->device);
	print_kind(out, pool->kind);
	print_size(out, report_pool_used(count));
	print_size(out, count->cached);
	print_size(out, count->pending);
	print_size(out, count->reserved);
	if (earlier && seconds > 0)
		fprintf(out, " %10.0f",
			(double)(count->hits > before ? count->hits - before : 0) / seconds);
	fprintf(out, " %7s %14s %10s", PERCENT(count->hits, report_pool_allocations(count)),
		NUMBER(report_pool_calls_saved(count)), NUMBER(count->waits));
	if (pool->off)
		fputs("  turned itself off", out);
	fputc('\n', out);
}

static void print_pools(FILE *out, const struct live *now, const struct live *earlier,
			double seconds)
{
	const struct report_pools *pools = now->process->pools;
	char title[64];

	if (!pools || (!pools->count && strcmp(pools->mode, "off") == 0))
		return;
	snprintf(title, sizeof(title), "pool (%s%s)", pools->mode,
		 pools->downgraded ? ", but strict is used" : "");
	fprintf(out, "\n%-*s %*s %*s %*s %*s", KIND_COLUMNS + 8, title, SIZE_COLUMNS, "used",
		SIZE_COLUMNS, "cached", SIZE_COLUMNS, "pending", SIZE_COLUMNS, "reserved");
	if (earlier && seconds > 0)
		fprintf(out, " %10s", "hits/s");
	fprintf(out, " %7s %14s %10s\n", "hits", "calls saved", "waits");
	for (size_t i = 0; i < pools->count; i++)
		print_pool(out, &pools->pools[i], earlier, seconds);
}

static void print_rate(FILE *out, const struct live_site *site, double seconds)
{
	double rate = site->allocated > site->allocated_before
			      ? (double)(site->allocated - site->allocated_before) / seconds
			      : 0;

	print_size(out, rate < 1.8e19 ? (uint64_t)rate : UINT64_MAX);
}

static void print_sites(FILE *out, const struct live *now, const struct live *earlier,
			double seconds, size_t count)
{
	fprintf(out, "\n%*s %10s", SIZE_COLUMNS + 1, "live", "blocks");
	print_growth(out, earlier, "growth");
	if (earlier && seconds > 0)
		fprintf(out, " %*s", SIZE_COLUMNS, "allocated/s");
	fputs("  where\n", out);
	for (size_t i = 0; i < now->site_count && i < count; i++) {
		const struct live_site *site = &now->sites[i];

		print_size(out, site->sum.bytes);
		fprintf(out, " %10s", NUMBER(site->sum.blocks));
		print_growth(out, earlier, GROWTH(site->sum.bytes, site->before.bytes));
		if (earlier && seconds > 0)
			print_rate(out, site, seconds);
		fputs("  ", out);
		describe_place_and_caller(out, site->site->stack, false);
		if (site->site->stack->cache)
			eprintf(out, ", held by the %s", site->site->stack->cache);
		eprintf(out, ", %s\n", site->site->api);
	}
	if (now->site_count > count)
		fprintf(out, "and %s more\n", NUMBER(now->site_count - count));
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
static void print_suballocations(FILE *out, const struct report_process *process, size_t count)
{
	if (!process->suballocation_count)
		return;
	print_inside(out, process);
	fprintf(out, "%*s %10s  where\n", SIZE_COLUMNS + 1, "live", "number");
	for (size_t i = 0; i < process->suballocation_count && i < count; i++) {
		const struct report_suballocations *site = &process->suballocations[i];

		print_size(out, site->live.bytes);
		fprintf(out, " %10s  ", NUMBER(site->live.blocks));
		describe_place_and_caller(out, site->live.site->stack, false);
		if (site->trend != TREND_UNKNOWN) {
			fputs(site->trend == TREND_ACCUMULATING ? ", accumulating: " : ", ", out);
			describe_trend(out, process, site);
		}
		fputc('\n', out);
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
	char objects[FORMAT_OBJECTS_MAX];

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
		format_objects(count, kind->name, objects);
		fprintf(out, "%s%s", before, objects);
		before = ", ";
		if (earlier && count != was)
			fprintf(out, " (%+" PRId64 ")", (int64_t)(count - was));
	}
	if (*before == ',')
		fputc('\n', out);
}

/* Prints each suspect on a line of its own. */
static void print_suspects(FILE *out, const struct live *live)
{
	struct report_suspect suspect;
	bool is_any = false;

	for (size_t at = 0; live_next_suspect(live, &at, &suspect);) {
		fputs("\nsuspect: ", out);
		describe_growth_rate(out, &suspect);
		fputs(" at ", out);
		describe_place_and_caller(out, suspect.site->stack, false);
		is_any = true;
	}
	if (is_any)
		fputc('\n', out);
}

void text_live(FILE *out, const struct live *now, const struct live *earlier, double seconds,
	       size_t sites)
{
	eprintf(out, "gpuleak top: %s (pid %d)\n", now->process->program, now->process->pid);
	print_sums(out, now, earlier);
	print_kinds(out, now, earlier);
	print_pools(out, now, earlier, seconds);
	print_objects(out, now, earlier);
	print_suspects(out, now);
	/* a screen has room for about SITES lines, and the call sites of blocks need some of
	 * them */
	print_suballocations(out, now->process, sites > SITES_FEW ? sites / 2 : sites);
	print_sites(out, now, earlier, seconds, sites);
}
