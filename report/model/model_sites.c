/* SPDX-License-Identifier: MIT
 *
 * Compares and sums up the ledger's call sites. Live blocks come from the process's lists. Strings
 * and stacks are interned, so pointers can be compared.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/load/load.h"
#include "report/model/builder.h"
#include "report/util/number.h"

/* ---- identity ---- */

/* Strings and stacks are interned. */
static bool same_site(const void *value, const void *key)
{
	const struct report_site *a = value, *b = key;

	return a->stack == b->stack && a->api == b->api && a->kind == b->kind &&
	       a->device == b->device;
}

struct build_site *intern_equal_site(struct builder *b, const struct report_site *key)
{
	uint64_t hash = hash_number((uintptr_t)key->stack, (uintptr_t)key->api);
	struct build_site *site;

	hash = hash_number((uint64_t)key->device, hash_number((uintptr_t)key->kind, hash));
	site = table_find(&b->sites, hash, same_site, key);
	if (site)
		return site;
	site = arena_alloc(b->arena, sizeof(*site));
	site->site = *key;
	table_add(&b->sites, hash, site);
	return site;
}

struct build_site *intern_site(struct builder *b, const struct ledger_site *record)
{
	return intern_equal_site(b, &(struct report_site){
		.api = build_name(b, record ? record->api : 0),
		.kind = build_name(b, record ? record->kind : 0),
		.device = record ? record->device : -1,
		.stack = build_stack(b, record ? record->stack : 0),
	});
}

const struct report_site *build_call(struct builder *b, uint32_t api, int device, uint32_t stack)
{
	return &intern_site(b, &(struct ledger_site){ .api = api, .device = device,
						      .stack = stack })->site;
}

struct site_key site_key_of(struct builder *b, const struct ledger_site *site)
{
	return (struct site_key){ build_name(b, site->api), build_name(b, site->kind),
				  site->device, build_stack_code(b, site->stack) };
}

bool site_key_is_same(const struct site_key *a, const struct site_key *b)
{
	return a->api == b->api && a->kind == b->kind && a->device == b->device &&
	       a->code == b->code;
}

int site_key_compare(const struct site_key *a, const struct site_key *b)
{
	return compare_numbers((uintptr_t)a->code, (uintptr_t)b->code)
	       ?: compare_numbers((uintptr_t)a->api, (uintptr_t)b->api)
	       ?: compare_numbers((uintptr_t)a->kind, (uintptr_t)b->kind)
	       ?: compare_ints(a->device, b->device);
}

uint64_t site_key_hash(const struct site_key *key)
{
	uint64_t hash = hash_number((uintptr_t)key->api, hash_number((uintptr_t)key->code, 0));

	return hash_number((uint64_t)key->device, hash_number((uintptr_t)key->kind, hash));
}

/* ---- lists ---- */

struct kind_node {
	struct report_kind public;
	uint64_t ended; /* blocks that ended, but not by a free */
	struct kind_node *next;
};

struct site_node {
	struct report_site_sums public;
	struct site_node *next;
};

struct site_gathering {
	struct builder *b;
	struct table table;
	struct kind_node *kinds;
	struct site_node *sites;
	size_t count;
};

/* Calls ADD for each leak, suppressed leak and entry of a cache. */
typedef void add_leak_fn(struct site_gathering *g, const struct report_leak *leak);

static void each_leak(struct site_gathering *g, add_leak_fn *add)
{
	const struct report_process *p = g->b->process;
	const struct { const struct report_leak *leaks; size_t count; } lists[] = {
		{ p->leaks, p->leak_count },
		{ p->suppressed, p->suppressed_count },
		{ p->cached, p->cached_count },
	};

	for (size_t list = 0; list < sizeof(lists) / sizeof(lists[0]); list++)
		for (size_t i = 0; i < lists[list].count; i++)
			add(g, &lists[list].leaks[i]);
}

/* Returns the next call site of memory, or NULL. */
static const struct ledger_site *next_site(const struct builder *b, struct ledger_walk *walk)
{
	const struct ledger_site *counters;

	do
		counters = ledger_next_site(b->view, walk);
	while (counters && ledger_site_is_object(b->view, counters));
	return counters;
}

/* ---- kinds ---- */

static bool same_kind(const void *value, const void *key)
{
	const struct report_kind *a = &((const struct kind_node *)value)->public, *b = key;

	return a->kind == b->kind && a->device == b->device;
}

static struct kind_node *intern_kind(struct site_gathering *g, const char *kind, int device)
{
	const struct report_kind key = { .kind = kind, .device = device };
	uint64_t hash = hash_number((uint64_t)device, hash_number((uintptr_t)kind, 0));
	struct kind_node *node = table_find(&g->table, hash, same_kind, &key);

	if (node)
		return node;
	node = arena_alloc(g->b->arena, sizeof(*node));
	table_add(&g->table, hash, node);
	node->public = key;
	node->next = g->kinds;
	g->kinds = node;
	g->count++;
	return node;
}

static struct kind_node *kind_of_site(struct site_gathering *g, const struct ledger_site *counters)
{
	return intern_kind(g, build_name(g->b, counters->kind), counters->device);
}

static void add_site_to_kind(struct site_gathering *g, const struct ledger_site *counters)
{
	struct kind_node *node = kind_of_site(g, counters);

	node->public.allocated_blocks =
		add_bounded(node->public.allocated_blocks, counters->allocs);
	node->public.allocated_bytes = add_bounded(node->public.allocated_bytes, counters->bytes);
	node->ended =
		add_bounded(node->ended, add_bounded(counters->with_context, counters->unseen));
}

static void add_leak_to_kind(struct site_gathering *g, const struct report_leak *leak)
{
	struct kind_node *node = intern_kind(g, leak->site->kind, leak->site->device);

	node->public.live_blocks = add_bounded(node->public.live_blocks, leak->blocks);
	node->public.live_bytes = add_bounded(node->public.live_bytes, leak->bytes);
}

/* Adds deferred frees to the kinds. */
static void add_deferred_to_kinds(struct site_gathering *g)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;

	while ((block = ledger_next_deferred(g->b->view, &walk))) {
		const struct ledger_site *counters = ledger_site(g->b->view, block->site);
		struct kind_node *node;

		if (!counters || ledger_site_is_object(g->b->view, counters))
			continue;
		node = kind_of_site(g, counters);
		node->ended = add_bounded(node->ended, 1);
	}
}

static int compare_kinds(const void *left, const void *right)
{
	const struct report_kind *a = left, *b = right;

	return strcmp(a->kind, b->kind) ?: compare_ints(a->device, b->device);
}

static void list_kinds(struct site_gathering *g)
{
	struct report_process *process = g->b->process;

	process->kinds = arena_alloc(g->b->arena, g->count * sizeof(*process->kinds));
	for (const struct kind_node *node = g->kinds; node; node = node->next) {
		struct report_kind *kind = &process->kinds[process->kind_count++];
		uint64_t ended = add_bounded(node->ended, node->public.live_blocks);

		*kind = node->public;
		kind->freed_blocks = kind->allocated_blocks > ended
					     ? kind->allocated_blocks - ended
					     : 0;
	}
	SORT(process->kinds, process->kind_count, compare_kinds);
}

void build_kinds(struct builder *b)
{
	struct site_gathering g = { .b = b };
	struct ledger_walk walk = { 0 };
	const struct ledger_site *counters;

	while ((counters = next_site(b, &walk)))
		add_site_to_kind(&g, counters);
	each_leak(&g, add_leak_to_kind);
	add_deferred_to_kinds(&g);
	list_kinds(&g);
	table_finish(&g.table);
}

/* ---- sites ---- */

static struct site_node *new_site(struct site_gathering *g, const struct report_site *site)
{
	struct site_node *node = arena_alloc(g->b->arena, sizeof(*node));

	node->public.site = site;
	node->next = g->sites;
	g->sites = node;
	g->count++;
	return node;
}

static struct site_node *listed(struct site_gathering *g, struct build_site *site)
{
	if (!site->listed)
		site->listed = new_site(g, &site->site);
	return site->listed;
}

static void add_leak_to_site(struct site_gathering *g, const struct report_leak *leak)
{
	struct site_node *node = listed(g, (struct build_site *)leak->site);

	/* a site can have two entries, for example for ignored and for other blocks */
	if (node->public.live) {
		node = new_site(g, leak->site);
		node->public.again = true;
	}
	node->public.live = leak;
}

static void add_counters_to_site(struct site_gathering *g, const struct ledger_site *counters)
{
	struct site_node *node = listed(g, intern_site(g->b, counters));

	node->public.allocated_blocks =
		add_bounded(node->public.allocated_blocks, counters->allocs);
	node->public.allocated_bytes = add_bounded(node->public.allocated_bytes, counters->bytes);
}

/* Reads path and build id of every module, including modules in no stack. */
static void list_modules(struct builder *b)
{
	size_t count = COUNT_RECORDS(b, ledger_next_module);
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_module *record;

	process->modules = arena_alloc(b->arena, count * sizeof(*process->modules));
	while (process->module_count < count && (record = ledger_next_module(b->view, &walk))) {
		struct report_module *module = &process->modules[process->module_count];
		char hex[2 * LEDGER_BUILD_ID_MAX + 1] = "";

		module->path = build_text(b, record->path);
		for (uint32_t i = 0; i < record->build_id_bytes && i < LEDGER_BUILD_ID_MAX; i++)
			sprintf(hex + 2 * (size_t)i, "%02x", record->build_id[i]);
		module->build_id = arena_printf(b->arena, "%s", hex);
		process->module_count += module->path != NULL;
	}
}

static int compare_sites(const void *left, const void *right)
{
	const struct report_site_sums *a = left, *b = right;

	return compare_numbers(b->live ? b->live->bytes : 0, a->live ? a->live->bytes : 0)
	       ?: compare_numbers(b->allocated_bytes, a->allocated_bytes)
	       ?: compare_numbers(b->allocated_blocks, a->allocated_blocks)
	       ?: strcmp(a->site->api, b->site->api);
}

void build_sites(struct builder *b)
{
	struct site_gathering g = { .b = b };
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_site *counters;

	if (!b->ledger->all_sites)
		return;
	each_leak(&g, add_leak_to_site);
	while ((counters = next_site(b, &walk)))
		add_counters_to_site(&g, counters);
	list_modules(b);
	process->sites = arena_alloc(b->arena, g.count * sizeof(*process->sites));
	for (const struct site_node *node = g.sites; node; node = node->next)
		process->sites[process->site_count++] = node->public;
	SORT(process->sites, process->site_count, compare_sites);
}
