/* SPDX-License-Identifier: MIT
 *
 * Compares and sums up the ledger's call sites. Live blocks come from the process's lists. Strings
 * and stacks are interned, so pointers can be compared.
 */
#include "report/model/builder.h"

#include <stdio.h>

#include "report/load/load.h"

/* ---- identity ---- */

/* Strings, stacks and codes are interned. */
static bool same_site(const void *value, const void *key)
{
	const struct build_site *a = value, *b = key;

	return a->stack_id == b->stack_id && a->site.api == b->site.api &&
	       a->site.kind == b->site.kind && a->site.device == b->site.device &&
	       a->site.range == b->site.range;
}

static struct build_site *intern(struct builder *b, const struct build_site *key)
{
	const struct report_site *of = &key->site;
	uint64_t hash = hash_number((uintptr_t)key->stack_id, (uintptr_t)of->api);
	struct build_site *site;

	hash = hash_number((uintptr_t)of->kind, hash_number((uint64_t)of->device, hash));
	site = table_find(&b->sites, hash, same_site, key);
	if (site)
		return site;
	site = arena_alloc(b->arena, sizeof(*site));
	*site = *key;
	site->is_object = kind_is_object(of->kind);
	table_add(b->arena, &b->sites, hash, site);
	return site;
}

struct build_site *intern_equal_site(struct builder *b, const struct report_site *key)
{
	return intern(b, &(struct build_site){ .site = *key, .stack_id = key->stack });
}

struct build_site *intern_site(struct builder *b, const struct ledger_site *record)
{
	return intern_equal_site(b, &(struct report_site){
		.api = build_name(b, record ? record->api : 0),
		.kind = build_name(b, record ? record->kind : 0),
		.device = record ? record->device : -1,
		.stack = build_stack(b, record ? record->stack : 0),
		.range = build_range_of(b, record),
	});
}

struct build_site *intern_kind(struct builder *b, const char *kind, int device)
{
	const struct report_site key = { build_unknown, kind, device, &build_no_stack, 0 };

	return intern_equal_site(b, &key);
}

const struct report_site *build_call(struct builder *b, uint32_t api, int device, uint32_t stack)
{
	return &intern_site(b, &(struct ledger_site){ .api = api, .device = device,
						      .stack = stack })->site;
}

struct build_site *intern_site_of_block(struct builder *b, uint32_t ref)
{
	const struct ref_node *known = table_find_ref(&b->site_refs, ref);
	const struct ledger_site *record = ledger_site(b->view, ref);
	struct build_site *site;

	if (known)
		return (struct build_site *)known->value;
	site = intern_site(b, record);
	if (record)
		intern_code_site(b, record)->same = site;
	table_add_ref(b->arena, &b->site_refs, ref, site);
	return site;
}

struct build_site *intern_code_site(struct builder *b, const struct ledger_site *record)
{
	return intern(b, &(struct build_site){
		.site = { .api = build_name(b, record->api), .kind = build_name(b, record->kind),
			  .device = record->device, .range = build_range_of(b, record) },
		.stack_id = build_stack_code(b, record->stack), .stack_ref = record->stack,
	});
}

struct build_site *look_up_site(struct builder *b, struct build_site *site)
{
	struct report_site key = site->site;

	if (!site->same) {
		key.stack = build_stack(b, site->stack_ref);
		site->same = intern_equal_site(b, &key);
	}
	return site->same;
}

/* ---- sums by call site ---- */

struct site_list site_list(struct builder *b, size_t size)
{
	return (struct site_list){ .b = b, .size = size, .number = ++b->site_lists };
}

void *site_list_get(struct site_list *list, struct build_site *site)
{
	struct site_entry *entry = site->entries;

	while (entry && entry->list != list->number)
		entry = entry->other;
	if (entry)
		return entry;
	entry = site_list_add(list, site);
	entry->other = site->entries;
	site->entries = entry;
	return entry;
}

void *site_list_add(struct site_list *list, struct build_site *site)
{
	struct site_entry *entry = arena_alloc(list->b->arena, list->size);

	*entry = (struct site_entry){ site, list->number, list->first, NULL };
	list->first = entry;
	list->count++;
	return entry;
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
	struct site_entry entry;
	struct report_site_sums public;
};

static void add_leaks(struct site_list *sites, const struct report_leak *leaks, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct build_site *site = (struct build_site *)leaks[i].site;
		struct site_node *node = site_list_get(sites, site);

		/* a site can have two entries, for example for ignored and for other blocks */
		if (node->public.live) {
			node = site_list_add(sites, site);
			node->public.again = true;
		}
		node->public.live = &leaks[i];
	}
}

static void add_counters(struct site_list *sites, const struct ledger_site *counters)
{
	struct site_node *node = site_list_get(sites, intern_site(sites->b, counters));

	node->public.allocated_blocks =
		add_bounded(node->public.allocated_blocks, counters->allocs);
	node->public.allocated_bytes = add_bounded(node->public.allocated_bytes, counters->bytes);
}

/* Reads path and build id of every module, including modules in no stack. */
static void list_modules(struct builder *b)
{
	struct report_process *process = b->process;

	LEDGER_EACH(module, record, b->view) {
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
	struct site_list sites = site_list(b, sizeof(struct site_node));
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_site *counters;
	struct site_node *node;

	if (!b->ledger->all_sites)
		return;
	add_leaks(&sites, process->leaks, process->leak_count);
	add_leaks(&sites, process->suppressed, process->suppressed_count);
	add_leaks(&sites, process->cached, process->cached_count);
	add_leaks(&sites, process->kept, process->kept_count);
	while ((counters = build_next_site(b, &walk)))
		add_counters(&sites, counters);
	list_modules(b);
	process->sites = arena_alloc(b->arena, sites.count * sizeof(*process->sites));
	EACH_SITE(&sites, node) {
		node->public.site = &node->entry.site->site;
		process->sites[process->site_count++] = node->public;
	}
	SORT(process->sites, process->site_count, compare_sites);
}
