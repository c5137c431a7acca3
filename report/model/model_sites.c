/* SPDX-License-Identifier: MIT
 *
 * Compares and sums up the ledger's call sites. Live blocks come from the process's lists. Strings
 * and stacks are interned, so pointers can be compared.
 */
#include "report/model/model_sites.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/model/builder.h"
#include "report/util/number.h"

/* ---- keys ---- */

int site_key_of(struct builder *b, const struct ledger_site *site, struct site_key *ret)
{
	int r = build_text(b, site->api, &ret->api);

	if (r == 0)
		r = build_text(b, site->kind, &ret->kind);
	if (r == 0)
		r = build_stack_code(b, site->stack, &ret->code);
	ret->api = ret->api ? ret->api : build_unknown;
	ret->kind = ret->kind ? ret->kind : build_unknown;
	ret->device = site->device;
	return r;
}

bool site_key_is_same(const struct site_key *a, const struct site_key *b)
{
	return a->api == b->api && a->kind == b->kind && a->device == b->device &&
	       a->code == b->code;
}

int site_key_compare(const struct site_key *a, const struct site_key *b)
{
	int r = compare_numbers((uintptr_t)a->code, (uintptr_t)b->code);

	if (r == 0)
		r = compare_numbers((uintptr_t)a->api, (uintptr_t)b->api);
	if (r == 0)
		r = compare_numbers((uintptr_t)a->kind, (uintptr_t)b->kind);
	return r ? r : (a->device > b->device) - (a->device < b->device);
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
	struct report_site public;
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
typedef int add_leak_fn(struct site_gathering *g, const struct report_leak *leak);

static int each_leak(struct site_gathering *g, add_leak_fn *add)
{
	const struct report_process *p = g->b->process;
	const struct { const struct report_leak *leaks; size_t count; } lists[] = {
		{ p->leaks, p->leak_count },
		{ p->suppressed, p->suppressed_count },
		{ p->cached, p->cached_count },
	};
	int r = 0;

	for (size_t list = 0; list < sizeof(lists) / sizeof(lists[0]); list++)
		for (size_t i = 0; i < lists[list].count && r == 0; i++)
			r = add(g, &lists[list].leaks[i]);
	return r;
}

/* Calls ADD for each call site of memory. */
typedef int add_site_fn(struct site_gathering *g, const struct ledger_site *counters);

static int for_each_site(struct site_gathering *g, add_site_fn *add)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *counters;
	int r = 0;

	while (r == 0 &&
	       (counters = ledger_next(g->b->view, &walk, LEDGER_CHUNK_SITES, sizeof(*counters))))
		if (!ledger_site_is_object(g->b->view, counters))
			r = add(g, counters);
	return r;
}

static int text_of(struct site_gathering *g, uint32_t ref, const char **ret)
{
	int r = build_text(g->b, ref, ret);

	if (r == 0 && !*ret)
		*ret = build_unknown;
	return r;
}

/* ---- kinds ---- */

static bool same_kind(const void *value, const void *key)
{
	const struct report_kind *a = &((const struct kind_node *)value)->public, *b = key;

	return a->kind == b->kind && a->device == b->device;
}

static int kind_at(struct site_gathering *g, const char *kind, int device, struct kind_node **ret)
{
	const struct report_kind key = { .kind = kind, .device = device };
	uint64_t hash = hash_number((uint64_t)device, hash_number((uintptr_t)kind, 0));
	struct kind_node *node = table_find(&g->table, hash, same_kind, &key);

	*ret = node;
	if (node)
		return 0;
	node = arena_alloc(g->b->arena, sizeof(*node));
	if (!node || table_add(&g->table, hash, node) < 0)
		return -ENOMEM;
	node->public = key;
	node->next = g->kinds;
	g->kinds = node;
	g->count++;
	*ret = node;
	return 0;
}

static int kind_of_site(struct site_gathering *g, const struct ledger_site *counters,
			struct kind_node **ret)
{
	const char *kind;
	int r = text_of(g, counters->kind, &kind);

	return r < 0 ? r : kind_at(g, kind, counters->device, ret);
}

static int add_site_to_kind(struct site_gathering *g, const struct ledger_site *counters)
{
	struct kind_node *node;
	int r = kind_of_site(g, counters, &node);

	if (r < 0)
		return r;
	node->public.allocated_blocks =
		add_bounded(node->public.allocated_blocks, counters->allocs);
	node->public.allocated_bytes = add_bounded(node->public.allocated_bytes, counters->bytes);
	node->ended =
		add_bounded(node->ended, add_bounded(counters->with_context, counters->unseen));
	return 0;
}

static int add_leak_to_kind(struct site_gathering *g, const struct report_leak *leak)
{
	struct kind_node *node;
	int r = kind_at(g, leak->kind, leak->device, &node);

	if (r < 0)
		return r;
	node->public.live_blocks = add_bounded(node->public.live_blocks, leak->blocks);
	node->public.live_bytes = add_bounded(node->public.live_bytes, leak->bytes);
	return 0;
}

/* Adds deferred frees to the kinds. */
static int add_deferred_to_kinds(struct site_gathering *g)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;
	int r = 0;

	while (r == 0 && (block = ledger_next_deferred(g->b->view, &walk))) {
		const struct ledger_site *counters = ledger_site(g->b->view, block->site);
		struct kind_node *node;

		if (!counters || ledger_site_is_object(g->b->view, counters))
			continue;
		r = kind_of_site(g, counters, &node);
		if (r == 0)
			node->ended = add_bounded(node->ended, 1);
	}
	return r;
}

static int compare_kinds(const void *left, const void *right)
{
	const struct report_kind *a = left, *b = right;
	int r = strcmp(a->kind, b->kind);

	return r ? r : (a->device > b->device) - (a->device < b->device);
}

static int list_kinds(struct site_gathering *g)
{
	struct report_process *process = g->b->process;

	process->kinds = arena_alloc(g->b->arena, g->count * sizeof(*process->kinds));
	if (!process->kinds)
		return -ENOMEM;
	for (const struct kind_node *node = g->kinds; node; node = node->next) {
		struct report_kind *kind = &process->kinds[process->kind_count++];
		uint64_t ended = add_bounded(node->ended, node->public.live_blocks);

		*kind = node->public;
		kind->freed_blocks = kind->allocated_blocks > ended
					     ? kind->allocated_blocks - ended
					     : 0;
	}
	if (process->kind_count)
		qsort(process->kinds, process->kind_count, sizeof(*process->kinds),
		      compare_kinds);
	return 0;
}

int build_kinds(struct builder *b)
{
	struct site_gathering g = { .b = b };
	int r = for_each_site(&g, add_site_to_kind);

	if (r == 0)
		r = each_leak(&g, add_leak_to_kind);
	if (r == 0)
		r = add_deferred_to_kinds(&g);
	if (r == 0)
		r = list_kinds(&g);
	table_finish(&g.table);
	return r;
}

/* ---- sites ---- */

static bool same_site(const void *value, const void *key)
{
	const struct report_site *a = &((const struct site_node *)value)->public, *b = key;

	return a->stack == b->stack && a->api == b->api && a->kind == b->kind &&
	       a->device == b->device;
}

static struct site_node *new_site(struct site_gathering *g, const struct report_site *key)
{
	struct site_node *node = arena_alloc(g->b->arena, sizeof(*node));

	if (!node)
		return NULL;
	node->public = *key;
	node->next = g->sites;
	g->sites = node;
	g->count++;
	return node;
}

static int site_at(struct site_gathering *g, const struct report_site *key, struct site_node **ret)
{
	uint64_t hash = hash_number((uintptr_t)key->stack, hash_number((uintptr_t)key->api, 0));
	struct site_node *node = table_find(&g->table, hash, same_site, key);

	*ret = node;
	if (node)
		return 0;
	*ret = node = new_site(g, key);
	return node ? table_add(&g->table, hash, node) : -ENOMEM;
}

static int add_leak_to_site(struct site_gathering *g, const struct report_leak *leak)
{
	const struct report_site key = { .api = leak->api, .kind = leak->kind,
					 .device = leak->device, .stack = leak->stack };
	struct site_node *node;
	int r = site_at(g, &key, &node);

	if (r < 0)
		return r;
	/* a site can have two entries, for example for ignored and for other blocks */
	if (node->public.live) {
		node = new_site(g, &key);
		if (!node)
			return -ENOMEM;
		node->public.again = true;
	}
	node->public.live = leak;
	return 0;
}

static int add_counters_to_site(struct site_gathering *g, const struct ledger_site *counters)
{
	struct report_site key = { .device = counters->device };
	struct site_node *node;
	int r = text_of(g, counters->api, &key.api);

	if (r == 0)
		r = text_of(g, counters->kind, &key.kind);
	if (r == 0)
		r = build_stack(g->b, counters->stack, &key.stack);
	if (r == 0)
		r = site_at(g, &key, &node);
	if (r < 0)
		return r;
	node->public.allocated_blocks =
		add_bounded(node->public.allocated_blocks, counters->allocs);
	node->public.allocated_bytes = add_bounded(node->public.allocated_bytes, counters->bytes);
	return 0;
}

/* Reads path and build id of every module, including modules in no stack. */
static int list_modules(struct builder *b)
{
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_module *record;
	size_t count = 0;
	int r = 0;

	while (ledger_next(b->view, &walk, LEDGER_CHUNK_MODULES, sizeof(*record)))
		count++;
	process->modules = arena_alloc(b->arena, count * sizeof(*process->modules));
	if (!process->modules)
		return -ENOMEM;
	walk = (struct ledger_walk){ 0 };
	while (r == 0 && process->module_count < count &&
	       (record = ledger_next(b->view, &walk, LEDGER_CHUNK_MODULES, sizeof(*record)))) {
		struct report_module *module = &process->modules[process->module_count];
		char hex[2 * LEDGER_BUILD_ID_MAX + 1] = "";

		r = build_text(b, record->path, &module->path);
		for (uint32_t i = 0; i < record->build_id_bytes && i < LEDGER_BUILD_ID_MAX; i++)
			sprintf(hex + 2 * (size_t)i, "%02x", record->build_id[i]);
		module->build_id = arena_printf(b->arena, "%s", hex);
		if (!module->build_id)
			r = -ENOMEM;
		process->module_count += module->path != NULL;
	}
	return r;
}

static int compare_sites(const void *left, const void *right)
{
	const struct report_site *a = left, *b = right;
	int r = compare_numbers(b->live ? b->live->bytes : 0, a->live ? a->live->bytes : 0);

	if (r == 0)
		r = compare_numbers(b->allocated_bytes, a->allocated_bytes);
	if (r == 0)
		r = compare_numbers(b->allocated_blocks, a->allocated_blocks);
	return r ? r : strcmp(a->api, b->api);
}

int build_sites(struct builder *b)
{
	struct site_gathering g = { .b = b };
	struct report_process *process = b->process;
	int r = each_leak(&g, add_leak_to_site);

	if (r == 0)
		r = for_each_site(&g, add_counters_to_site);
	table_finish(&g.table);
	if (r == 0)
		r = list_modules(b);
	if (r < 0)
		return r;
	process->sites = arena_alloc(b->arena, g.count * sizeof(*process->sites));
	if (!process->sites)
		return -ENOMEM;
	for (const struct site_node *node = g.sites; node; node = node->next)
		process->sites[process->site_count++] = node->public;
	if (process->site_count)
		qsort(process->sites, process->site_count, sizeof(*process->sites),
		      compare_sites);
	return 0;
}
