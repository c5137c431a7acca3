/* SPDX-License-Identifier: MIT
 *
 * Lists the suballocations of a process by call site: the live ones, and those that accumulated
 * while it ran. They lie inside blocks that the rest of the model has already. So they are in no
 * sum and in no other list.
 *
 * Also lists the call sites of other blocks that accumulated, if the ledger has their series. Their
 * live blocks are in the list of leaks. So a call site with live blocks is not listed here, unless
 * gpuleak attached to the process.
 */
#include "report/model/model_suballocations.h"

#include "ledger/live_series.h"
#include "report/load/load.h"
#include "report/model/accumulation_rule.h"
#include "report/model/builder.h"

/* Up to this many threads may be inside a call of one call site. */
#define CALLS_BEGUN_MAX 16u

struct suballocation_site {
	struct site_entry entry;
	struct report_suballocations public;
	uint64_t ended; /* blocks that ended, but not by a free */
	uint64_t not_selected; /* live blocks */
	struct live_windows windows;
	uint64_t series_live; /* live blocks as the series count them */
	bool of_blocks;       /* not of suballocations */
	/* The call is cuMemCreate, and a block is a handle. The series count its memory until it
	 * ends: while it is mapped, it lives on after the handle was released. */
	bool of_physical;
	uint64_t deferred;    /* of blocks: deferred frees, which the series count as live */
	bool unsampled; /* the windows of at least one of its records cannot be used */
};

struct gathering {
	struct builder *b;
	struct table refs;  /* finds a site by the ref of its record in the ledger */
	struct site_list sites; /* struct suballocation_site */
	struct process_windows process;
	/* The ledger divides time into windows by counting allocations (ledger/format.h): how many
	 * allocations it counted, and how many windows they filled. */
	uint64_t suballocated;
	size_t windows;
	size_t count; /* number of sites to list */
};

static struct suballocation_site *site_of(struct gathering *g, const struct ledger_site *record)
{
	struct suballocation_site *site = site_list_get(&g->sites, intern_site(g->b, record));
	const struct report_places *places = site->entry.site->places;
	const struct report_site *known = &site->entry.site->site;
	struct report_leak *live = &site->public.live;

	if (live->site)
		return site;
	if (places)
		site->public.places = *places;
	live->site = known;
	live->cache = report_cache_of(known);
	site->of_blocks = !report_is_suballocation(live);
	site->of_physical = strncmp(known->kind, LEDGER_KIND_VIRTUAL,
				    strlen(LEDGER_KIND_VIRTUAL)) == 0;
	return site;
}

/* Adds WINDOW of a record. ALLOCS is the number of allocations of the record until the end. */
static void add_window(struct live_window *sum, const struct ledger_window *window, uint64_t allocs)
{
	uint64_t time_ns = window->time ? (uint64_t)window->time << LEDGER_WINDOW_TIME_BITS : 0;

	sum->low_blocks += LEDGER_AMOUNT_BLOCKS(window->low);
	sum->low_bytes += LEDGER_AMOUNT_BYTES(window->low);
	sum->high_blocks += LEDGER_AMOUNT_BLOCKS(window->high);
	sum->high_bytes += LEDGER_AMOUNT_BYTES(window->high);
	sum->allocs += allocs - (uint32_t)((uint32_t)allocs - window->allocs);
	if (!sum->time_ns || (time_ns && time_ns < sum->time_ns))
		sum->time_ns = time_ns;
}

/* Adds the windows of RECORD, one of several if several threads allocated at SITE. */
static void add_windows(struct gathering *g, struct suballocation_site *site,
			const struct ledger_site *record)
{
	const struct live_moment end = { g->suballocated, record->allocs, 0 };
	const struct ledger_live_series *series;
	struct ledger_live_series copy;

	series = ledger_live_series(g->b->view, record->series);
	if (!series || !live_series_read(series, &end, &copy)) {
		site->unsampled = true;
		return;
	}
	copy.window[copy.current].low = copy.low;
	copy.window[copy.current].high = copy.high;
	for (size_t i = 0; i <= g->windows; i++)
		add_window(&site->windows.window[i], &copy.window[i], record->allocs);
	for (size_t i = 0; i < g->windows; i++) {
		g->process.low_blocks[i] += LEDGER_AMOUNT_BLOCKS(copy.window[i].low);
		g->process.low_bytes[i] += LEDGER_AMOUNT_BYTES(copy.window[i].low);
	}
	site->series_live += LEDGER_AMOUNT_BLOCKS(copy.allocated - copy.freed);
	site->windows.count = g->windows;
	site->windows.allocs += record->allocs;
}

/* Counts the sites that allocate all the time, and those of them whose blocks become larger. */
static void count_working(struct gathering *g)
{
	const struct suballocation_site *site;

	EACH_SITE(&g->sites, site) {
		if (site->unsampled || !live_windows_work(&site->windows))
			continue;
		g->process.working_sites++;
		g->process.larger_sites += live_windows_become_larger(&site->windows);
	}
}

static void set_trend(const struct gathering *g, struct suballocation_site *site)
{
	struct report_suballocations *public = &site->public;
	struct accumulation found;

	if (site->unsampled)
		return;
	for (size_t i = 0; i <= g->windows; i++)
		if (site->windows.window[i].high_blocks > public->peak_blocks)
			public->peak_blocks = site->windows.window[i].high_blocks;
	found = accumulation_judge(&site->windows, &g->process);
	public->trend = found.trend;
	public->kept_blocks = found.kept_blocks;
	public->kept_bytes = found.kept_bytes;
	public->kept_per_second = found.kept_per_second;
}

static void add_record(struct gathering *g, const struct ledger_site *record,
		       struct suballocation_site *site)
{
	site->public.allocated_blocks = add_bounded(site->public.allocated_blocks, record->allocs);
	site->ended = add_bounded(site->ended, record->unseen);
	add_windows(g, site, record);
	table_add_ref(g->b->arena, &g->refs, build_ref(g->b, record), site);
}

static void add_sites(struct gathering *g)
{
	LEDGER_EACH(suballocation_site, record, g->b->view) {
		add_record(g, record, site_of(g, record));
		g->b->process->has_suballocations = true;
	}
}

/* Adds the call sites of blocks that are not suballocations, if the ledger counts their live
 * blocks. Leaves out blocks of caches: these are no accumulation of the application. */
static void add_block_sites(struct gathering *g)
{
	LEDGER_EACH(site, record, g->b->view) {
		struct suballocation_site *site = record->series ? site_of(g, record) : NULL;

		if (!site || site->public.live.cache || !site->of_blocks)
			continue;
		site->ended = add_bounded(site->ended, record->with_context);
		add_record(g, record, site);
		g->b->process->has_counted_blocks = true;
	}
}

/* Adds a live block to its site. */
static void add_block(struct gathering *g, const struct ledger_block *block,
		      struct report_suballocations *entry)
{
	entry->live.blocks++;
	entry->live.bytes = add_bounded(entry->live.bytes, block->bytes);
	if (block->marked & LEDGER_BLOCK_IGNORED) {
		entry->ignored_blocks++;
		entry->ignored_bytes = add_bounded(entry->ignored_bytes, block->bytes);
	}
	build_add_name(g->b, &entry->live, block);
	if (g->b->choice->addresses)
		build_add_address(g->b, &entry->live, block);
}

static void add_blocks(struct gathering *g)
{
	LEDGER_EACH(suballocation, block, g->b->view) {
		const struct ref_node *known = table_find_ref(&g->refs, block->site);
		struct suballocation_site *site;

		if (!known) {
			g->b->lost_blocks++;
			continue;
		}
		site = (struct suballocation_site *)known->value;
		if (build_is_selected(g->b, block))
			add_block(g, block, &site->public);
		else
			site->not_selected++;
	}
}

/* Counts the live blocks of call sites that add_block_sites() added. */
static void add_live_blocks(struct gathering *g)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;

	while (g->b->process->has_counted_blocks &&
	       (block = ledger_next_block_slot(g->b->view, &walk))) {
		const struct ref_node *known = table_find_ref(&g->refs, block->site);
		struct suballocation_site *site;

		if (!known)
			continue;
		site = (struct suballocation_site *)known->value;
		if (ledger_block_is_live(block->state, block->marked))
			site->not_selected++;
		else
			site->deferred += LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_RELEASED;
	}
}

/* Orders what accumulates first, then by size, largest first. */
static int compare(const void *left, const void *right)
{
	const struct report_suballocations *a = left, *b = right;
	bool a_grows = a->trend == TREND_ACCUMULATING, b_grows = b->trend == TREND_ACCUMULATING;

	return b_grows - a_grows ?: (a_grows ? compare_numbers(b->kept_bytes, a->kept_bytes) : 0)
	       ?: compare_numbers(b->live.bytes, a->live.bytes)
	       ?: compare_numbers(b->live.blocks, a->live.blocks)
	       ?: compare_numbers(b->allocated_blocks, a->allocated_blocks)
	       ?: compare_ints(a->live.site->device, b->live.site->device);
}

static bool is_listed(const struct gathering *g, const struct suballocation_site *site)
{
	/* The report lists or suppresses its live blocks, or the mappings, as leaks. If gpuleak
	 * attached to the process, leaks are not judged. */
	if (((site->of_blocks && site->not_selected) || (site->of_physical && site->series_live)) &&
	    !(g->b->process->attached && site->public.trend == TREND_ACCUMULATING))
		return false;
	return site->public.live.blocks || site->public.trend == TREND_ACCUMULATING;
}

static void list_sites(struct gathering *g)
{
	struct report_process *process = g->b->process;
	const struct suballocation_site *site;

	process->suballocations = arena_alloc(g->b->arena,
					      g->count * sizeof(*process->suballocations));
	EACH_SITE(&g->sites, site) {
		uint64_t kept = add_bounded(add_bounded(site->ended, site->not_selected),
					    site->public.live.blocks);
		struct report_suballocations *entry;

		if (!is_listed(g, site))
			continue;
		entry = &process->suballocations[process->suballocation_count++];
		*entry = site->public;
		entry->freed_blocks = entry->allocated_blocks > kept
					      ? entry->allocated_blocks - kept
					      : 0;
	}
	SORT(process->suballocations, process->suballocation_count, compare);
}

/* Returns true if the windows of SITE contradict the number of its live blocks, because calls were
 * lost or the record is damaged. A small difference is normal: some calls may not have returned
 * when the ledger was read. */
static bool is_contradicted(const struct suballocation_site *site)
{
	uint64_t live = add_bounded(site->public.live.blocks, site->not_selected) + site->deferred;
	uint64_t more = live > site->series_live ? live - site->series_live
			: site->of_physical      ? 0
						 : site->series_live - live;

	return more > CALLS_BEGUN_MAX + live / 64;
}

static void set_trends(struct gathering *g)
{
	struct suballocation_site *site;

	EACH_SITE(&g->sites, site)
		site->unsampled = site->unsampled || is_contradicted(site);
	count_working(g);
	EACH_SITE(&g->sites, site) {
		set_trend(g, site);
		g->count += is_listed(g, site);
		g->b->process->unsampled_suballocations += site->unsampled;
	}
}

/* Finds the pattern that suppresses each call site that accumulates. */
static void classify(struct builder *b)
{
	struct report_process *process = b->process;
	struct report_summary *sum = &process->summary;

	for (size_t i = 0; i < process->suballocation_count; i++) {
		struct report_suballocations *site = &process->suballocations[i];

		if (site->trend != TREND_ACCUMULATING)
			continue;
		if (site->live.blocks && site->ignored_blocks == site->live.blocks)
			site->live.pattern = REPORT_IGNORED;
		else /* the bytes count as those of the blocks */
			site->live.pattern = build_suppress(b, site->live.site->stack, 0, 0);
		if (site->live.pattern)
			continue;
		sum->accumulating_blocks = add_bounded(sum->accumulating_blocks, site->kept_blocks);
		sum->accumulating_bytes = add_bounded(sum->accumulating_bytes, site->kept_bytes);
	}
}

void build_suballocations(struct builder *b)
{
	struct gathering g = { .b = b, .suballocated = ledger_header(b->view)->suballocated,
			       .sites = site_list(b, sizeof(struct suballocation_site)) };
	unsigned int shift = live_shift(g.suballocated);

	g.windows = (size_t)(g.suballocated >> shift);
	g.process.window_allocs = (uint64_t)1 << shift;
	add_sites(&g);
	add_block_sites(&g);
	add_blocks(&g);
	add_live_blocks(&g);
	set_trends(&g);
	list_sites(&g);
	classify(b);
}
