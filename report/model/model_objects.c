/* SPDX-License-Identifier: MIT
 *
 * Counts objects that are not memory, by kind and by call site: created, destroyed, ended with
 * their context, live. Counts all objects, also those that the choice of blocks leaves out.
 */
#include <errno.h>
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
};

struct object_gathering {
	struct builder *b;
	struct table sites; /* struct object_site */
	struct table kinds; /* struct report_object_kind */
	struct object_site **list;
	size_t count, room;
};

static bool same_site(const void *value, const void *key)
{
	return site_key_is_same(&((const struct object_site *)value)->key, key);
}

static struct object_site *new_site(struct object_gathering *g, const struct site_key *key,
				    uint64_t hash)
{
	struct object_site *site = arena_alloc(g->b->arena, sizeof(*site));

	if (!site || table_add(&g->sites, hash, site) < 0)
		return NULL;
	site->key = *key;
	if (g->count == g->room) {
		size_t room = g->room ? 2 * g->room : 64;
		struct object_site **list = reallocarray(g->list, room, sizeof(*list));

		if (!list)
			return NULL;
		g->list = list;
		g->room = room;
	}
	return g->list[g->count++] = site;
}

/* Returns the site of RECORD, or NULL if memory ran out. */
static struct object_site *site_of(struct object_gathering *g, const struct ledger_site *record)
{
	struct object_site *site;
	struct site_key key;
	uint64_t hash;

	if (site_key_of(g->b, record, &key) < 0)
		return NULL;
	hash = site_key_hash(&key);
	site = table_find(&g->sites, hash, same_site, &key);
	return site ? site : new_site(g, &key, hash);
}

static uint32_t ref_of(const struct builder *b, const struct ledger_site *record)
{
	return (uint32_t)((size_t)((const uint8_t *)record - b->view->base) / LEDGER_REF_UNIT);
}

static int walk_sites(struct object_gathering *g)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_site *record;

	while ((record = ledger_next(g->b->view, &walk, LEDGER_CHUNK_SITES, sizeof(*record)))) {
		struct object_site *site;
		struct report_leak *group;

		if (!ledger_site_is_object(g->b->view, record))
			continue;
		site = site_of(g, record);
		if (!site)
			return -ENOMEM;
		group = build_known_group(g->b, ref_of(g->b, record));
		if (group)
			site->group = group;
		site->created = add_bounded(site->created, record->allocs);
		site->with_context = add_bounded(site->with_context, record->with_context);
		site->unseen = add_bounded(site->unseen, record->unseen);
	}
	return 0;
}

static int walk_blocks(struct object_gathering *g)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;

	while (g->count && (block = ledger_next_live(g->b->view, &walk))) {
		const struct ledger_site *record = ledger_site(g->b->view, block->site);
		struct object_site *site;

		if (!record || !ledger_site_is_object(g->b->view, record))
			continue;
		site = site_of(g, record);
		if (!site)
			return -ENOMEM;
		site->live++;
	}
	return 0;
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
static struct report_object_kind *kind_at(struct object_gathering *g, const char *kind)
{
	struct report_process *process = g->b->process;
	uint64_t hash = hash_number((uintptr_t)kind, 0);
	struct report_object_kind *known = table_find(&g->kinds, hash, same_kind, kind);

	if (known)
		return known;
	known = &process->object_kinds[process->object_kind_count++];
	known->kind = kind;
	return table_add(&g->kinds, hash, known) < 0 ? NULL : known;
}

static int sum_up(struct object_gathering *g)
{
	struct report_process *process = g->b->process;
	struct report_object_kind *kind;

	process->object_kinds = arena_alloc(g->b->arena,
					    g->count * sizeof(*process->object_kinds));
	if (!process->object_kinds)
		return -ENOMEM;
	for (size_t i = 0; i < g->count; i++) {
		const struct object_site *site = g->list[i];

		kind = kind_at(g, site->key.kind);
		if (!kind)
			return -ENOMEM;
		kind->live = add_bounded(kind->live, site->live);
		add_site(site, &kind->counts);
		if (site->group)
			add_site(site, &site->group->objects);
	}
	if (process->object_kind_count)
		qsort(process->object_kinds, process->object_kind_count,
		      sizeof(*process->object_kinds), compare_kinds);
	return 0;
}

int build_objects(struct builder *b)
{
	struct object_gathering g = { .b = b };
	int r = walk_sites(&g);

	if (r == 0)
		r = walk_blocks(&g);
	if (r == 0)
		r = sum_up(&g);
	table_finish(&g.sites);
	table_finish(&g.kinds);
	free(g.list);
	return r;
}
