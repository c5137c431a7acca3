/* SPDX-License-Identifier: MIT
 *
 * Groups live blocks by call site and other keys and sums them up. Moves the groups to the lists
 * of leaks, suppressed blocks, cached memory and objects.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/load/load.h"
#include "report/model/builder.h"
#include "report/model/model_suballocations.h"
#include "report/suppress/suppress.h"
#include "report/util/number.h"

struct group {
	struct report_leak leak;
	const struct ledger_block *most; /* the block with the largest reference count */
	struct group *next;
};

static bool same_group(const void *value, const void *key)
{
	const struct report_leak *a = &((const struct group *)value)->leak, *b = key;

	/* Strings and stacks are interned, so pointers can be compared. */
	return a->api == b->api && a->kind == b->kind && a->device == b->device &&
	       a->stack == b->stack && a->ignored == b->ignored && a->mapping == b->mapping;
}

static int find_group(struct builder *b, const struct report_leak *key, struct group **ret)
{
	uint64_t hash = hash_number((uintptr_t)key->stack, hash_number((uintptr_t)key->api, 0));
	struct group *group;

	hash = hash_number((uint64_t)key->device, hash_number((uintptr_t)key->kind, hash));
	hash = hash_number((uint64_t)key->ignored, hash);
	hash = hash_number((uintptr_t)key->mapping, hash);
	group = table_find(&b->groups, hash, same_group, key);
	if (!group) {
		group = arena_alloc(b->arena, sizeof(*group));
		if (!group || table_add(&b->groups, hash, group) < 0)
			return -ENOMEM;
		group->leak = *key;
		group->next = b->first_group;
		b->first_group = group;
		b->group_count++;
	}
	*ret = group;
	return 0;
}

/* Finds or creates the group of the blocks at call site REF, a struct ledger_site. Fills in KEY
 * from the call site. */
static int find_group_of_site(struct builder *b, uint32_t ref, struct report_leak *key,
			     struct group **ret)
{
	const struct ledger_site *site = ledger_site(b->view, ref);
	int r = 0;

	if (site) {
		key->device = site->device;
		key->is_object = ledger_site_is_object(b->view, site);
		r = build_text(b, site->api, &key->api);
		if (r == 0)
			r = build_text(b, site->kind, &key->kind);
		if (r == 0)
			r = build_stack(b, site->stack, &key->stack);
	}
	if (!key->api)
		key->api = build_unknown;
	if (!key->kind)
		key->kind = build_unknown;
	return r < 0 ? r : find_group(b, key, ret);
}

/* Finds or creates the group of BLOCK. Blocks of one call site form one group, except those that
 * the program ignores. These form another group. */
static int group_of(struct builder *b, const struct ledger_block *block, struct group **ret)
{
	struct report_leak key = { .device = -1, .stack = &build_no_stack,
				   .ignored = (block->marked & LEDGER_BLOCK_IGNORED) != 0 };
	struct table *refs = key.ignored ? &b->ignored_site_refs : &b->site_refs;
	const struct ref_node *known;
	int r;

	if (LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_RELEASED) {
		r = build_mapping(b, block, &key.mapping);
		return r < 0 ? r : find_group_of_site(b, block->site, &key, ret);
	}
	known = table_find_ref(refs, block->site);
	if (known) {
		*ret = (struct group *)known->value;
		return 0;
	}
	r = find_group_of_site(b, block->site, &key, ret);
	return r < 0 ? r : table_add_ref(b->arena, refs, block->site, *ret);
}

static bool has_more_references(const struct ledger_block *a, const struct ledger_block *b)
{
	return a->references > b->references ||
	       (a->references == b->references && a->history && !b->history);
}

static bool is_chosen(const struct load_choice *choice, const struct ledger_block *block)
{
	return LEDGER_BLOCK_MARK(block->marked) >= choice->since &&
	       (!choice->thread || block->thread == choice->thread) &&
	       (!choice->address || block->address == choice->address ||
		(choice->address > block->address &&
		 choice->address - block->address < block->bytes));
}

/* Adds a block that --since, --thread or --address excludes to the sums of blocks left out. */
static void leave_out(struct builder *b, const struct ledger_block *block)
{
	const struct ledger_site *site = ledger_site(b->view, block->site);
	struct report_summary *sum = &b->process->summary;

	if (site && ledger_site_is_object(b->view, site))
		return;
	sum->left_out_blocks = add_bounded(sum->left_out_blocks, 1);
	sum->left_out_bytes = add_bounded(sum->left_out_bytes, block->bytes);
}

/* Adds a live block that is younger than --older to the sum of younger blocks. */
static void leave_out_young(struct builder *b, const struct group *group,
			    const struct ledger_block *block)
{
	struct report_summary *sum = &b->process->summary;

	if (group->leak.is_object)
		return;
	sum->younger_blocks++;
	sum->younger_bytes = add_bounded(sum->younger_bytes, block->bytes);
}

bool build_is_selected(const struct builder *b, const struct ledger_block *block)
{
	return is_chosen(b->choice, block) && !build_is_young(b, block);
}

int build_group_of(struct builder *b, const struct ledger_block *block, struct report_leak **ret)
{
	struct group *group = NULL;
	int r = group_of(b, block, &group);

	if (r == 0)
		*ret = &group->leak;
	return r;
}

struct report_leak *build_known_group(const struct builder *b, uint32_t ref)
{
	const struct ref_node *known = table_find_ref(&b->site_refs, ref);

	return known ? &((struct group *)known->value)->leak : NULL;
}

int build_add_address(struct builder *b, struct report_leak *leak, const struct ledger_block *block)
{
	struct report_addresses *list = leak->addresses;

	if (!list)
		list = leak->addresses = arena_alloc(b->arena, sizeof(*list));
	if (!list)
		return -ENOMEM;
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : 4;
		uint64_t *larger = arena_alloc(b->arena, room * sizeof(*larger));

		if (!larger)
			return -ENOMEM;
		if (list->count)
			memcpy(larger, list->list, list->count * sizeof(*larger));
		list->list = larger;
		list->room = room;
	}
	list->site = block->site;
	list->list[list->count++] = block->address;
	return 0;
}

int build_groups(struct builder *b)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;

	/* If the process ended during a free, the free did not happen, and the block is live. */
	while ((block = ledger_next_live(b->view, &walk))) {
		struct group *group = NULL;
		int r;

		if (!is_chosen(b->choice, block)) {
			leave_out(b, block);
			continue;
		}
		r = group_of(b, block, &group);
		if (r < 0)
			return r;
		if (build_is_young(b, block)) {
			leave_out_young(b, group, block);
			continue;
		}
		if (!ledger_site(b->view, block->site))
			b->lost_blocks++;
		group->leak.blocks++;
		group->leak.bytes = add_bounded(group->leak.bytes, block->bytes);
		if (!group->most || has_more_references(block, group->most))
			group->most = block;
		group->leak.references = group->most->references;
		if (b->choice->addresses)
			r = build_add_address(b, &group->leak, block);
		if (r < 0)
			return r;
	}
	return 0;
}

void build_sums(struct builder *b)
{
	struct report_summary *sum = &b->process->summary;
	uint64_t ended = 0, live = 0;
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;

	while ((site = ledger_next(b->view, &walk, LEDGER_CHUNK_SITES, sizeof(*site)))) {
		if (ledger_site_is_object(b->view, site))
			continue;
		sum->allocated_blocks = add_bounded(sum->allocated_blocks, site->allocs);
		sum->allocated_bytes = add_bounded(sum->allocated_bytes, site->bytes);
		sum->with_context_blocks =
			add_bounded(sum->with_context_blocks, site->with_context);
		sum->with_context_bytes =
			add_bounded(sum->with_context_bytes, site->with_context_bytes);
		sum->late_blocks = add_bounded(sum->late_blocks, site->late);
		sum->unseen_blocks = add_bounded(sum->unseen_blocks, site->unseen);
		ended = add_bounded(ended, add_bounded(site->with_context, site->unseen));
	}
	for (const struct group *group = b->first_group; group; group = group->next)
		live = add_bounded(live, group->leak.is_object ? 0 : group->leak.blocks);
	sum->deferred_blocks = b->process->deferred.deferred_blocks;
	live = add_bounded(live, add_bounded(sum->left_out_blocks, sum->younger_blocks));
	ended = add_bounded(ended, add_bounded(live, sum->deferred_blocks));
	sum->freed_blocks = sum->allocated_blocks > ended ? sum->allocated_blocks - ended : 0;
	sum->peak_bytes = ledger_header(b->view)->peak_bytes;
}

static int compare_texts(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int compare_stacks(const struct report_stack *a, const struct report_stack *b)
{
	size_t count = a->count < b->count ? a->count : b->count;
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		r = compare_texts(a->frames[i].module, b->frames[i].module);
		if (r == 0)
			r = compare_numbers(a->frames[i].offset, b->frames[i].offset);
	}
	if (r == 0)
		r = compare_numbers(a->count, b->count);
	return r ? r : compare_numbers((uint64_t)a->cut, (uint64_t)b->cut);
}

/* Orders groups without a mapping first. */
static int compare_mappings(const struct report_mapping *a, const struct report_mapping *b)
{
	int r = (a != NULL) - (b != NULL);

	if (r || !a)
		return r;
	r = compare_stacks(a->mapped.stack, b->mapped.stack);
	return r ? r : compare_stacks(a->released.stack, b->released.stack);
}

int build_compare_leaks(const void *left, const void *right)
{
	const struct report_leak *a = left, *b = right;
	int r = compare_numbers(b->bytes, a->bytes);

	if (r == 0)
		r = compare_numbers(b->blocks, a->blocks);
	if (r == 0)
		r = strcmp(a->api, b->api);
	if (r == 0)
		r = strcmp(a->kind, b->kind);
	if (r == 0)
		r = a->device < b->device ? -1 : a->device > b->device;
	if (r == 0)
		r = compare_stacks(a->stack, b->stack);
	return r ? r : compare_mappings(a->mapping, b->mapping);
}

int build_group_histories(struct builder *b)
{
	int r = 0;

	for (struct group *group = b->first_group; group && r == 0; group = group->next)
		if (group->most && group->most->history && !group->leak.mapping)
			r = build_history(b, group->most, &group->leak.history);
	return r;
}

static void sort_leaks(struct report_leak *leaks, size_t count)
{
	if (count)
		qsort(leaks, count, sizeof(*leaks), build_compare_leaks);
}

/* Adds LEAK to LIST, which has room for it, and to the list's sums. */
static void add_to_list(const struct report_leak *leak, struct report_leak *list, size_t *count,
		uint64_t *blocks, uint64_t *bytes)
{
	*blocks = add_bounded(*blocks, leak->blocks);
	*bytes = add_bounded(*bytes, leak->bytes);
	list[(*count)++] = *leak;
}

static int make_lists(struct builder *b)
{
	size_t bytes = b->group_count * sizeof(struct report_leak);
	struct report_process *process = b->process;

	process->leaks = arena_alloc(b->arena, bytes);
	process->suppressed = arena_alloc(b->arena, bytes);
	process->cached = arena_alloc(b->arena, bytes);
	process->objects = arena_alloc(b->arena, bytes);
	return process->leaks && process->suppressed && process->cached && process->objects
		       ? 0
		       : -ENOMEM;
}

/* Finds the pattern that suppresses allocations at STACK. Stores the pattern or NULL in *RET, the
 * list that has it in *RET_BY, and its index there in *RET_INDEX. Returns 0 or -ENOMEM. */
static int find_pattern(struct builder *b, struct pattern_file *suppressions,
		 const struct report_stack *stack, struct pattern_file **ret_by, int *ret_index,
		 const char **ret)
{
	*ret = NULL;
	*ret_by = suppressions;
	*ret_index = suppressions_match(suppressions, stack->frames, stack->count);
	if (*ret_index < 0) {
		*ret_by = b->process->program_suppressions;
		*ret_index = suppressions_match(*ret_by, stack->frames, stack->count);
	}
	if (*ret_index < 0)
		return 0;
	*ret = arena_printf(b->arena, "%s", (*ret_by)->rules[*ret_index].pattern.text);
	return *ret ? 0 : -ENOMEM;
}

int classify_deferred(struct builder *b, struct pattern_file *suppressions)
{
	struct report_deferred_frees *frees = &b->process->deferred;
	struct pattern_file *by;
	int index, r = 0;

	for (size_t i = 0; i < frees->group_count && r == 0; i++) {
		struct report_deferred *deferred = &frees->groups[i];

		if (deferred->ignored)
			deferred->pattern = REPORT_IGNORED;
		else
			r = find_pattern(b, suppressions, deferred->allocated.stack, &by, &index,
					 &deferred->pattern);
		if (deferred->pattern && !deferred->ignored)
			suppressions_count(by, index, 0, 0);
	}
	return r;
}

int classify_suballocations(struct builder *b, struct pattern_file *suppressions)
{
	struct report_process *process = b->process;
	struct report_summary *sum = &process->summary;
	int r = 0;

	for (size_t i = 0; i < process->suballocation_count && r == 0; i++) {
		struct report_suballocations *site = &process->suballocations[i];
		struct pattern_file *by;
		int index;

		if (site->trend != TREND_ACCUMULATING)
			continue;
		if (site->live.blocks && site->ignored_blocks == site->live.blocks) {
			site->live.pattern = REPORT_IGNORED;
			continue;
		}
		r = find_pattern(b, suppressions, site->live.stack, &by, &index,
				 &site->live.pattern);
		if (site->live.pattern) {
			/* the bytes count as those of the blocks */
			suppressions_count(by, index, 0, 0);
			continue;
		}
		sum->accumulating_blocks = add_bounded(sum->accumulating_blocks, site->kept_blocks);
		sum->accumulating_bytes = add_bounded(sum->accumulating_bytes, site->kept_bytes);
	}
	return r;
}

/* A suppressed object is listed, but never fails the gate. */
static int classify_object(struct builder *b, struct pattern_file *suppressions,
			   struct report_leak *object)
{
	struct pattern_file *by;
	int index, r;

	if (object->ignored) {
		object->pattern = REPORT_IGNORED;
		return 0;
	}
	r = find_pattern(b, suppressions, object->stack, &by, &index, &object->pattern);
	if (object->pattern)
		suppressions_count(by, index, 0, 0);
	return r;
}

int classify_groups(struct builder *b, struct pattern_file *suppressions)
{
	struct report_process *process = b->process;
	struct report_summary *sum = &process->summary;

	if (make_lists(b) < 0)
		return -ENOMEM;
	for (struct group *group = b->first_group; group; group = group->next) {
		struct report_leak *leak = &group->leak;
		struct pattern_file *by;
		int index, r;

		if (!group->most) /* all blocks of the group are too young */
			continue;
		if (leak->is_object) {
			r = classify_object(b, suppressions, leak);
			if (r < 0)
				return r;
			process->objects[process->object_count++] = *leak;
			continue;
		}
		if (leak->ignored) {
			leak->pattern = REPORT_IGNORED;
			add_to_list(leak, process->suppressed, &process->suppressed_count,
			    &sum->suppressed_blocks, &sum->suppressed_bytes);
			continue;
		}
		r = find_pattern(b, suppressions, leak->stack, &by, &index, &leak->pattern);
		if (r < 0)
			return r;
		if (!leak->pattern) {
			leak->cache = leak->stack->cache;
			if (leak->cache)
				add_to_list(leak, process->cached, &process->cached_count,
				    &sum->cached_blocks, &sum->cached_bytes);
			else
				add_to_list(leak, process->leaks, &process->leak_count,
				    &sum->leaked_blocks, &sum->leaked_bytes);
			continue;
		}
		suppressions_count(by, index, leak->blocks, leak->bytes);
		add_to_list(leak, process->suppressed, &process->suppressed_count,
		    &sum->suppressed_blocks, &sum->suppressed_bytes);
	}
	sort_leaks(process->leaks, process->leak_count);
	sort_leaks(process->suppressed, process->suppressed_count);
	sort_leaks(process->cached, process->cached_count);
	sort_leaks(process->objects, process->object_count);
	return 0;
}
