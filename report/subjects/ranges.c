/* SPDX-License-Identifier: MIT
 *
 * Memory by named ranges of the program (NVTX). A range has what was allocated in it, but not in
 * the ranges inside it, so the rows add up. Blocks of a cache do not count if the ledger has the
 * suballocations in that cache: these count. Must not judge: what is left in a range is among the
 * leaks, too.
 */
#include "report/subjects/subject.h"

#include <string.h>

#include "ledger/totals.h"
#include "report/describe/json_helpers.h"
#include "report/model/builder.h"
#include "report/subjects/figures.h"
#include "report/util/compare.h"
#include "report/util/escape.h"
#include "report/util/number.h"

#define CACHES_MAX 128u

struct range_sums {
	const struct ledger_range *record; /* NULL: not in the ledger */
	struct report_range public;
	uint64_t suballocations; /* that were allocated */
	uint64_t cached_blocks;  /* allocated by caches that have suballocations */
};

struct range_gathering {
	struct builder *b;
	struct range_sums *ranges; /* by number; [0]: outside all ranges */
	const char *caches[CACHES_MAX]; /* those that have suballocations */
	size_t cache_count;
};

/* ---- build ---- */

static bool has_suballocations(const struct range_gathering *g, const char *cache)
{
	for (size_t i = 0; cache && i < g->cache_count; i++)
		if (strcmp(g->caches[i], cache) == 0)
			return true;
	return false;
}

static void add_cache(struct range_gathering *g, const char *cache)
{
	if (cache && g->cache_count < CACHES_MAX && !has_suballocations(g, cache))
		g->caches[g->cache_count++] = cache;
}

static void add_site(struct range_gathering *g, const struct ledger_site *site)
{
	const struct ledger_live live = ledger_site_live(g->b->view, site, LEDGER_COUNT_LIVE);
	struct report_range *sum = &g->ranges[build_range_number(g->b, site)].public;
	uint64_t bytes = site->bytes, blocks = site->allocs;

	sum->allocated_bytes = add_bounded(sum->allocated_bytes, bytes);
	sum->allocated_blocks = add_bounded(sum->allocated_blocks, blocks);
	sum->left_bytes = add_bounded(sum->left_bytes, live.bytes);
	sum->left_blocks = add_bounded(sum->left_blocks, live.blocks);
	sum->freed_bytes = add_bounded(sum->freed_bytes,
				       bytes > live.bytes ? bytes - live.bytes : 0);
}

static void add_suballocations(struct range_gathering *g)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;

	while ((site = ledger_next_suballocation_site(g->b->view, &walk))) {
		const struct report_site *of = &intern_site(g->b, site)->site;

		if (report_heap_of(of) && g->b->heaps_mixed)
			continue;
		add_cache(g, report_cache_of(of));
		add_cache(g, report_heap_of(of));
		g->ranges[build_range_number(g->b, site)].suballocations += site->allocs;
		add_site(g, site);
	}
}

static void add_blocks(struct range_gathering *g)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;

	while ((site = build_next_site(g->b, &walk))) {
		const struct report_site *of = g->cache_count ? &intern_site(g->b, site)->site
							       : NULL;

		if (of && (has_suballocations(g, report_cache_of(of)) ||
			   has_suballocations(g, report_heap_of(of))))
			g->ranges[build_range_number(g->b, site)].cached_blocks += site->allocs;
		else
			add_site(g, site);
	}
}

/* Returns the peak of RANGE, whose counters are those of all its blocks and of all its
 * suballocations. If both are part of its sums, their common peak is not known. */
static uint64_t peak_of(const struct range_sums *range)
{
	bool has_blocks = range->public.allocated_blocks > range->suballocations;

	if (range->record && !has_blocks)
		return range->record->live[LEDGER_RANGE_SUBALLOCATIONS].peak;
	if (range->record && !range->suballocations && !range->cached_blocks)
		return range->record->live[LEDGER_RANGE_BLOCKS].peak;
	return FIGURE_UNKNOWN;
}

static int compare(const void *left, const void *right)
{
	const struct report_range *a = left, *b = right;

	return (int)a->outside - (int)b->outside
	       ?: compare_numbers(b->left_bytes, a->left_bytes)
	       ?: compare_numbers(b->allocated_bytes, a->allocated_bytes)
	       ?: compare_numbers(b->allocated_blocks, a->allocated_blocks)
	       ?: strcmp(a->name ? a->name : "", b->name ? b->name : "");
}

static int compare_names(const void *left, const void *right)
{
	const struct report_range *a = left, *b = right;

	return (int)a->outside - (int)b->outside
	       ?: strcmp(a->name ? a->name : "", b->name ? b->name : "")
	       ?: strcmp(a->domain ? a->domain : "", b->domain ? b->domain : "");
}

/* Adds up ranges that look the same: a name may have a slash, and only the innermost range has its
 * domain in the row. Their common peak is not known. */
static void merge_same(struct report_process *process)
{
	struct report_range *to = process->ranges;

	SORT(process->ranges, process->range_count, compare_names);
	for (size_t i = 1; i < process->range_count; i++) {
		const struct report_range *range = &process->ranges[i];

		if (compare_names(to, range) != 0) {
			*++to = *range;
			continue;
		}
		to->allocated_bytes = add_bounded(to->allocated_bytes, range->allocated_bytes);
		to->allocated_blocks = add_bounded(to->allocated_blocks, range->allocated_blocks);
		to->freed_bytes = add_bounded(to->freed_bytes, range->freed_bytes);
		to->left_bytes = add_bounded(to->left_bytes, range->left_bytes);
		to->left_blocks = add_bounded(to->left_blocks, range->left_blocks);
		to->peak_bytes = FIGURE_UNKNOWN;
	}
	if (process->range_count)
		process->range_count = (size_t)(to + 1 - process->ranges);
}

static void list_ranges(struct range_gathering *g)
{
	struct report_process *process = g->b->process;

	for (uint32_t i = 0; i <= LEDGER_RANGE_OTHER; i++) {
		struct range_sums *range = &g->ranges[i];

		if (!range->public.allocated_blocks)
			continue;
		range->public.outside = i == 0;
		range->public.peak_bytes = peak_of(range);
		if (range->record && i < LEDGER_RANGE_OTHER) {
			range->public.name = build_range_path(g->b, range->record);
			range->public.domain = build_text(g->b, range->record->domain);
		}
		*ARENA_ADD(g->b->arena, process->ranges, process->range_count) = range->public;
	}
	merge_same(process);
	SORT(process->ranges, process->range_count, compare);
}

static void build(struct builder *b)
{
	struct range_gathering g = { .b = b };

	g.ranges = arena_alloc(b->arena, (LEDGER_RANGE_OTHER + 1) * sizeof(*g.ranges));
	for (uint32_t i = 1; i <= LEDGER_RANGE_OTHER; i++)
		g.ranges[i].record = build_range(b, i);
	add_suballocations(&g);
	add_blocks(&g);
	list_ranges(&g);
}

/* ---- text ---- */

#define ROWS_MAX 10u

static void print_range(FILE *out, const struct report_range *range)
{
	bool has_peak = range->peak_bytes != FIGURE_UNKNOWN;
	char text[4][NUMBER_MAX];

	fprintf(out, "  %12s  %12s  %12s  %12s  ", format_size(range->left_bytes, text[0]),
		format_size(range->allocated_bytes, text[1]),
		format_size(range->freed_bytes, text[2]),
		has_peak ? format_size(range->peak_bytes, text[3]) : "-");
	if (range->outside)
		fputs("(outside all ranges)", out);
	else if (range->name)
		eprintf(out, "%s", range->name);
	else
		fputs("(ranges that the table of names had no room for)", out);
	if (range->domain)
		eprintf(out, " [%s]", range->domain);
	fputc('\n', out);
}

/* A report that finds nothing wrong has one line. */
static void print_details(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;
	size_t rows = view->verbose ? process->range_count : ROWS_MAX;

	if (!view->is_wrong && !view->verbose)
		return;
	fprintf(out, "Memory by range of the program (NVTX):\n  %12s  %12s  %12s  %12s  %s\n",
		"left", "allocated", "freed", "peak", "range");
	for (size_t i = 0; i < process->range_count && i < rows; i++)
		print_range(out, &process->ranges[i]);
	if (process->range_count > rows)
		fprintf(out, "  and %s more; -v lists all\n",
			NUMBER(process->range_count - rows));
}

/* ---- JSON and metrics ---- */

static const struct figure rows[] = {
	{ "allocated_bytes", FIGURE(report_range, allocated_bytes), .page = { 2, "Allocated" },
	  .metric = "allocated_bytes_total", .help = "Bytes that were allocated in the range." },
	{ "allocated_blocks", FIGURE(report_range, allocated_blocks) },
	{ "freed_bytes", FIGURE(report_range, freed_bytes), .page = { 3, "Freed" },
	  .metric = "freed_bytes_total", .help = "Bytes of these that were freed." },
	{ "left_bytes", FIGURE(report_range, left_bytes), .page = { 1, "Left" },
	  .help = "Bytes of these that were not freed." },
	{ "left_blocks", FIGURE(report_range, left_blocks) },
	{ "peak_bytes", FIGURE(report_range, peak_bytes), .page = { 4, "Peak" },
	  .help = "Most bytes of the range that were allocated at one moment." },
};

static const void *item(const struct report_process *process, size_t i, FILE *labels)
{
	const struct report_range *range;

	if (i >= process->range_count || i >= METRIC_ITEMS_MAX)
		return NULL;
	range = &process->ranges[i];
	if (!labels)
		return range;
	metric_label(labels, "range", range->name ? range->name : "");
	metric_label(labels, "domain", range->domain ? range->domain : "");
	metric_label(labels, "outside", range->outside ? "1" : "0");
	return range;
}

static const struct figures figures = { .prefix = "gpuleak_range_", FIGURES(rows), .item = item,
					.is_optional = true };

static void add_json(json_t *object, const struct subject_view *view)
{
	json_t *list = json_array();

	for (size_t i = 0; i < view->process->range_count; i++) {
		const struct report_range *range = &view->process->ranges[i];
		json_t *row = JSON_OBJECT(
			{ "name", json_text(range->name) },
			{ "domain", json_text(range->domain) },
			{ "outside", JSON_IF(range->outside, json_true()) });

		figures_add_json(row, &figures, range);
		json_array_append_new(list, row);
	}
	json_set(object, "ranges", list);
}

const struct subject subject_ranges = {
	.build = build, .chunks = CHUNK_BIT(RANGES), .only_if = PART(range_count),
	.details = print_details, .json = add_json, .figures = &figures,
};
