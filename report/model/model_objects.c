/* SPDX-License-Identifier: MIT
 *
 * Counts objects that are not memory, by kind and by call site: created, destroyed, ended with
 * their context, live. Counts all objects, also those that the choice of blocks leaves out.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/model/builder.h"
#include "report/util/number.h"

/* The sum of all records of one call site. Each thread has its own record. */
struct object_site {
	struct site_key key;
	struct report_leak *group; /* NULL: it has no selected live object */
	uint64_t created, with_context, unseen, live;
	struct object_site *next;
};

struct object_gathering {
	struct builder *b;
	struct table sites; /* struct object_site */
	struct table kinds; /* struct report_object_kind */
	struct object_site *first;
	size_t count;
};

static bool same_site(const void *value, const void *key)
{
	return site_key_is_same(&((const struct object_site *)value)->key, key);
}

/* Returns the site of RECORD, or NULL if memory ran out. */
static struct object_site *intern_object_site(struct object_gathering *g,
					      const struct ledger_site *record)
{
	struct site_key key = site_key_of(g->b, record);
	uint64_t hash = site_key_hash(&key);
	struct object_site *site = table_find(&g->sites, hash, same_site, &key);

	if (site)
		return site;
	site = arena_alloc(g->b->arena, sizeof(*site));
	*site = (struct object_site){ .key = key, .next = g->first };
	g->first = site;
	g->count++;
	table_add(&g->sites, hash, site);
	return site;
}

static void walk_sites(struct object_gathering *g)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *record;

	while ((record = ledger_next_site(g->b->view, &walk))) {
		struct object_site *site;
		struct report_leak *group;

		if (!ledger_site_is_object(g->b->view, record))
			continue;
		site = intern_object_site(g, record);
		group = build_known_group(g->b, build_ref(g->b, record));
		if (group)
			site->group = group;
		site->created = add_bounded(site->created, record->allocs);
		site->with_context = add_bounded(site->with_context, record->with_context);
		site->unseen = add_bounded(site->unseen, record->unseen);
	}
}

static void walk_blocks(struct object_gathering *g)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;

	while (g->count && (block = ledger_next_live(g->b->view, &walk))) {
		const struct ledger_site *record = ledger_site(g->b->view, block->site);

		if (record && ledger_site_is_object(g->b->view, record))
			intern_object_site(g, record)->live++;
	}
}

static void add_site(const struct object_site *site, struct report_object_counts *to)
{
	uint64_t other = add_bounded(add_bounded(site->with_context, site->unseen), site->live);

	to->created = add_bounded(to->created, site->created);
	to->with_context = add_bounded(to->with_context, site->with_context);
	to->destroyed = add_bounded(to->destroyed,
				    site->created > other ? site->created - other : 0);
}

static int compare_kinds(const void *left, const void *right)
{
	const struct report_object_kind *a = left, *b = right;

	return strcmp(a->kind, b->kind);
}

static bool same_kind(const void *value, const void *key)
{
	return ((const struct report_object_kind *)value)->kind == key; /* strings are interned */
}

/* Returns the element of KIND, which may be new, or NULL if memory ran out. */
static struct report_object_kind *intern_kind(struct object_gathering *g, const char *kind)
{
	struct report_process *process = g->b->process;
	uint64_t hash = hash_number((uintptr_t)kind, 0);
	struct report_object_kind *known = table_find(&g->kinds, hash, same_kind, kind);

	if (known)
		return known;
	known = &process->object_kinds[process->object_kind_count++];
	known->kind = kind;
	table_add(&g->kinds, hash, known);
	return known;
}

static void sum_up(struct object_gathering *g)
{
	struct report_process *process = g->b->process;

	process->object_kinds = arena_alloc(g->b->arena,
					    g->count * sizeof(*process->object_kinds));
	for (const struct object_site *site = g->first; site; site = site->next) {
		struct report_object_kind *kind = intern_kind(g, site->key.kind);

		kind->live = add_bounded(kind->live, site->live);
		add_site(site, &kind->counts);
		if (site->group)
			add_site(site, &site->group->objects);
	}
	SORT(process->object_kinds, process->object_kind_count, compare_kinds);
}

void build_objects(struct builder *b)
{
	struct object_gathering g = { .b = b };

	walk_sites(&g);
	walk_blocks(&g);
	sum_up(&g);
	table_finish(&g.sites);
	table_finish(&g.kinds);
}
