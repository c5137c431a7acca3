/* SPDX-License-Identifier: MIT
 *
 * Compares and sums up the ledger's call sites. Live blocks come from the process's lists. Strings
 * and stacks are interned, so pointers can be compared.
 */
#include "report/model/builder.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/load/load.h"
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

const struct ledger_site *build_next_site(const struct builder *b, struct ledger_walk *walk)
{
	const struct ledger_site *counters;

	do
		counters = ledger_next_site(b->view, walk);
	while (counters && ledger_site_is_object(b->view, counters));
	return counters;
}

/* ---- all call sites of memory, with what they allocated ---- */

struct site_node {
	struct report_site_sums public;
	struct site_node *next;
};

struct site_gathering {
	struct builder *b;
	struct site_node *sites;
	size_t count;
};

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

static void add_leaks(struct site_gathering *g, const struct report_leak *leaks, size_t count)
{
	for (size_t i = 0; i < count; i++)
		add_leak_to_site(g, &leaks[i]);
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
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_module *record;

	while ((record = ledger_next_module(b->view, &walk))) {
		const char *path = build_text(b, record->path);
		char hex[2 * LEDGER_BUILD_ID_MAX + 1] = "";

		for (uint32_t i = 0; i < record->build_id_bytes && i < LEDGER_BUILD_ID_MAX; i++)
			sprintf(hex + 2 * (size_t)i, "%02x", record->build_id[i]);
		if (path)
			*ARENA_ADD(b->arena, process->modules, process->module_count) =
				(struct report_module){ path, arena_printf(b->arena, "%s", hex) };
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
	add_leaks(&g, process->leaks, process->leak_count);
	add_leaks(&g, process->suppressed, process->suppressed_count);
	add_leaks(&g, process->cached, process->cached_count);
	while ((counters = build_next_site(b, &walk)))
		add_counters_to_site(&g, counters);
	list_modules(b);
	process->sites = arena_alloc(b->arena, g.count * sizeof(*process->sites));
	for (const struct site_node *node = g.sites; node; node = node->next)
		process->sites[process->site_count++] = node->public;
	SORT(process->sites, process->site_count, compare_sites);
}
