/* SPDX-License-Identifier: MIT
 *
 * All places that ever allocated, from the ledger's rows: also those that freed everything.
 * Rows of one key (threads count apart) are one site. Objects that are no memory are none.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "number.h"

struct node {
	struct report_site site;
	struct node *next;
};

struct sites {
	struct table table;
	struct node *first;
	size_t count;
};

static int same_site(const void *value, const void *key)
{
	const struct report_site *a = &((const struct node *)value)->site, *b = key;

	/* Strings and stacks are interned. */
	return a->api == b->api && a->kind == b->kind && a->device == b->device &&
	       a->stack == b->stack;
}

static uint64_t hash_of(const struct report_site *key)
{
	uint64_t hash = hash_number((uintptr_t)key->stack, hash_number((uintptr_t)key->api, 0));

	return hash_number((uint64_t)key->device, hash_number((uintptr_t)key->kind, hash));
}

static struct report_site *find(const struct sites *sites, const struct report_site *key)
{
	struct node *node = table_find(&sites->table, hash_of(key), same_site, key);

	return node ? &node->site : NULL;
}

static int add_row(struct builder *b, struct sites *sites, const struct ledger_row *row)
{
	static const char unknown[] = "unknown";
	struct report_site key = { .device = row->device, .stack = &build_no_stack };
	struct report_site *site;
	int r = build_text(b, row->api, &key.api);

	if (r == 0)
		r = build_text(b, row->kind, &key.kind);
	if (r == 0)
		r = build_stack(b, row->stack, &key.stack);
	if (r < 0)
		return r;
	key.api = key.api ? key.api : unknown;
	key.kind = key.kind ? key.kind : unknown;
	site = find(sites, &key);
	if (!site) {
		struct node *node = pool_alloc(b->pool, sizeof(*node));

		if (!node || table_add(&sites->table, hash_of(&key), node) < 0)
			return -ENOMEM;
		node->site = key;
		node->next = sites->first;
		sites->first = node;
		sites->count++;
		site = &node->site;
	}
	site->allocated_blocks = add_bounded(site->allocated_blocks, row->allocs);
	site->allocated_bytes = add_bounded(site->allocated_bytes, row->bytes);
	return 0;
}

static void add_live(const struct sites *sites, const struct report_leak *leaks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct report_site key = { .api = leaks[i].api, .kind = leaks[i].kind,
						 .device = leaks[i].device,
						 .stack = leaks[i].stack };
		struct report_site *site = find(sites, &key);

		if (!site)
			continue;
		site->live_blocks = add_bounded(site->live_blocks, leaks[i].blocks);
		site->live_bytes = add_bounded(site->live_bytes, leaks[i].bytes);
	}
}

/* Largest first; of equal ones in the order of their names, then of the ledger. */
static int compare_sites(const void *left, const void *right)
{
	const struct report_site *a = left, *b = right;
	int r;

	if (a->allocated_bytes != b->allocated_bytes)
		return a->allocated_bytes < b->allocated_bytes ? 1 : -1;
	if (a->allocated_blocks != b->allocated_blocks)
		return a->allocated_blocks < b->allocated_blocks ? 1 : -1;
	r = strcmp(a->api, b->api);
	if (r == 0)
		r = strcmp(a->kind, b->kind);
	return r ? r : a->device < b->device ? -1 : a->device > b->device;
}

static int keep(struct builder *b, const struct sites *sites)
{
	struct report_process *process = b->process;
	size_t at = sites->count;

	process->sites = pool_alloc(b->pool, sites->count * sizeof(*process->sites));
	if (!process->sites)
		return -ENOMEM;
	process->site_count = sites->count;
	for (const struct node *node = sites->first; node; node = node->next)
		process->sites[--at] = node->site;
	if (sites->count)
		qsort(process->sites, sites->count, sizeof(*process->sites), compare_sites);
	return 0;
}

int build_sites(struct builder *b)
{
	const struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	struct sites sites = { 0 };
	const struct ledger_row *row;
	int r = 0;

	while (r == 0 && (row = ledger_next(b->view, &walk, LEDGER_CHUNK_ROWS, sizeof(*row))))
		if (row->allocs && !ledger_row_is_object(b->view, row))
			r = add_row(b, &sites, row);
	if (r == 0) {
		add_live(&sites, process->leaks, process->leak_count);
		add_live(&sites, process->suppressed, process->suppressed_count);
		add_live(&sites, process->cached, process->cached_count);
		r = keep(b, &sites);
	}
	table_finish(&sites.table);
	return r;
}
