/* SPDX-License-Identifier: MIT
 *
 * Walks over the blocks once, sums them up by call site, and merges equal sites. The cost is
 * proportional to the length of the ledger plus the symbols of the displayed stacks.
 */
#include "report/top/live.h"

#include "report/model/builder.h"
#include "report/load/load.h"
#include "report/subjects/subject.h"
#include "report/top/trend.h"

struct live_gathering {
	struct builder b;
	struct live *live;
	struct site_list sites; /* struct live_entry */
};

struct live_entry {
	struct site_entry entry;
	struct live_site site;
};

/* Returns the entry of the call site that the record REF describes. */
static struct live_entry *entry_of(struct live_gathering *g, uint32_t ref)
{
	static const struct ledger_site unknown = { .device = -1 };
	const struct ref_node *known = table_find_ref(&g->b.site_refs, ref);
	const struct ledger_site *counters;
	struct live_entry *ret;

	if (known)
		return (struct live_entry *)known->value;
	counters = ledger_site(g->b.view, ref);
	ret = site_list_get(&g->sites, intern_code_site(&g->b, counters ? counters : &unknown));
	if (!ret->site.site)
		ret->site = (struct live_site){ .site = &ret->entry.site->site,
						.ref = counters ? ref : 0 };
	table_add_ref(g->b.arena, &g->b.site_refs, ref, ret);
	return ret;
}

/* Makes the entries. Stores in each the bytes that it has allocated since the start. Fills in the
 * sums of the process. */
static void walk_sites(struct live_gathering *g)
{
	struct report_summary *sum = &g->b.process->summary;

	LEDGER_EACH(site, counters, g->b.view) {
		struct live_site *site = &entry_of(g, build_ref(&g->b, counters))->site;

		site->allocated = add_bounded(site->allocated, counters->bytes);
		if (kind_is_object(site->site->kind))
			continue;
		sum->allocated_blocks = add_bounded(sum->allocated_blocks, counters->allocs);
		sum->allocated_bytes = add_bounded(sum->allocated_bytes, counters->bytes);
	}
	sum->peak_bytes = ledger_header(g->b.view)->peak_bytes;
	sum->errors = ledger_header(g->b.view)->errors;
}

static void add_to_sum(struct live_sum *to, uint64_t bytes, uint64_t blocks)
{
	to->bytes = add_bounded(to->bytes, bytes);
	to->blocks = add_bounded(to->blocks, blocks);
}

static void walk_blocks(struct live_gathering *g)
{
	LEDGER_EACH(live, block, g->b.view) {
		struct live_site *site;

		if (build_is_young(&g->b, block))
			continue;
		site = &entry_of(g, block->site)->site;
		add_to_sum(&site->sum, block->bytes, 1);
		if (!kind_is_object(site->site->kind))
			add_to_sum(&g->live->sum, block->bytes, 1);
	}
}

static int64_t grown(const struct live_site *site)
{
	return (int64_t)(site->sum.bytes - site->before.bytes);
}

static uint64_t rate(const struct live_site *site)
{
	return site->allocated > site->allocated_before ? site->allocated - site->allocated_before
							: 0;
}

static int compare_sites(const void *left, const void *right)
{
	const struct live_site *a = left, *b = right;

	return compare_numbers(b->sum.bytes, a->sum.bytes)
	       ?: compare_numbers(b->sum.blocks, a->sum.blocks)
	       ?: compare_numbers(a->ref, b->ref);
}

static int compare_by_blocks(const void *left, const void *right)
{
	const struct live_site *a = left, *b = right;

	return compare_numbers(b->sum.blocks, a->sum.blocks) ?: compare_sites(a, b);
}

static int compare_by_growth(const void *left, const void *right)
{
	const struct live_site *a = left, *b = right;

	return (grown(a) < grown(b)) - (grown(a) > grown(b)) ?: compare_sites(a, b);
}

static int compare_by_rate(const void *left, const void *right)
{
	const struct live_site *a = left, *b = right;

	return compare_numbers(rate(b), rate(a)) ?: compare_sites(a, b);
}

static int (*const orders[])(const void *, const void *) = {
	[LIVE_BY_BYTES] = compare_sites,
	[LIVE_BY_BLOCKS] = compare_by_blocks,
	[LIVE_BY_GROWTH] = compare_by_growth,
	[LIVE_BY_RATE] = compare_by_rate,
};

/* Adds the memory to the list, or the objects. Memory without live blocks is only listed if LOOK
 * orders sites by rate. */
static void add_to_list(struct live_gathering *g, const struct live_options *look, bool objects)
{
	struct live *live = g->live;
	const struct live_entry *entry;

	EACH_SITE(&g->sites, entry) {
		if (kind_is_object(entry->site.site->kind) != objects ||
		    (!entry->site.sum.blocks && (objects || look->order != LIVE_BY_RATE)))
			continue;
		live->sites[live->site_count + live->object_count] = entry->site;
		*(objects ? &live->object_count : &live->site_count) += 1;
	}
}

static void list_sites(struct live_gathering *g, const struct live_options *look)
{
	struct live *live = g->live;
	size_t count;

	live->sites = arena_alloc(g->b.arena, g->sites.count * sizeof(*live->sites));
	add_to_list(g, look, false);
	add_to_list(g, look, true);
	count = live->site_count + live->object_count;
	if (look->trend)
		trend_update(look->trend, live->sites, count, look->step);
	SORT(live->sites, live->site_count, orders[look->order]);
	for (size_t i = 0; i < count; i++) {
		struct live_site *site = &live->sites[i];

		if ((i < look->sites && i < live->site_count) || site->growing.intervals)
			site->site = &look_up_site(&g->b, (struct build_site *)site->site)->site;
	}
}

static int compare_kinds(const void *left, const void *right)
{
	const struct live_kind *a = left, *b = right;

	return compare_ints(a->device, b->device) ?: strcmp(a->kind, b->kind);
}

/* Makes the list of kinds from the sites. There are at most as many kinds as sites. */
static void list_kinds(struct live_gathering *g)
{
	struct live *live = g->live;
	size_t count = 0;

	live->kinds = arena_alloc(g->b.arena, live->site_count * sizeof(*live->kinds));
	for (size_t i = 0; i < live->site_count; i++)
		live->kinds[i] = (struct live_kind){ live->sites[i].site->kind,
						     live->sites[i].site->device,
						     live->sites[i].sum };
	SORT(live->kinds, live->site_count, compare_kinds);
	for (size_t i = 0; i < live->site_count; i++) {
		struct live_kind *last = count ? &live->kinds[count - 1] : NULL;

		if (last && compare_kinds(last, &live->kinds[i]) == 0)
			add_to_sum(&last->sum, live->kinds[i].sum.bytes, live->kinds[i].sum.blocks);
		else
			live->kinds[count++] = live->kinds[i];
	}
	live->kind_count = count;
}

static void gather(struct live_gathering *g, const struct live_options *look)
{
	build_identity(&g->b);
	build_modules(&g->b);
	build_age(&g->b);
	walk_sites(g);
	walk_blocks(g);
	list_sites(g, look);
	list_kinds(g);
	subject_build(&subject_pool, &g->b);
	subject_build(&subject_growth, &g->b);
	subject_build(&subject_suballocations, &g->b);
	build_ended(&g->b);
}

struct live *live_build(const struct loaded_ledger *ledger, struct symbolizer *symbolizer,
			const struct live_options *look)
{
	struct live_gathering g = { 0 };

	build_start(&g.b, ledger, symbolizer);
	g.sites = site_list(&g.b, sizeof(struct live_entry));
	g.live = arena_alloc(g.b.arena, sizeof(*g.live));
	gather(&g, look);
	g.live->process = g.b.process;
	return g.live;
}

void live_destroy(struct live *live)
{
	if (live)
		/* LIVE itself is allocated from the process's arena */
		report_process_destroy(live->process);
}

struct live_sum live_kind_in(const struct live *earlier, const struct live_kind *kind)
{
	for (size_t i = 0; earlier && i < earlier->kind_count; i++)
		if (compare_kinds(&earlier->kinds[i], kind) == 0)
			return earlier->kinds[i].sum;
	return (struct live_sum){ 0 };
}

bool live_next_suspect(const struct live *live, size_t *at, struct report_suspect *ret)
{
	const struct report_growth *growth = live->process->growth;

	if (growth) {
		if (*at >= growth->suspect_count)
			return false;
		*ret = growth->suspects[(*at)++];
		return true;
	}
	while (*at < live->site_count + live->object_count) {
		const struct live_site *site = &live->sites[(*at)++];

		if (!site->growing.intervals)
			continue;
		*ret = (struct report_suspect){ .site = site->site, .ref = site->ref,
						.intervals = site->growing.intervals };
		*(kind_is_object(site->site->kind) ? &ret->blocks_per_step
						   : &ret->bytes_per_step) = site->growing.per_step;
		return true;
	}
	return false;
}
