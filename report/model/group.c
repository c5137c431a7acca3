/* SPDX-License-Identifier: MIT
 *
 * Groups live blocks by call site and other keys and sums them up. Moves the groups to the lists
 * of leaks, suppressed, cached and kept memory, and objects. Also computes the age of a block.
 */
#include "report/model/builder.h"

#include <time.h>

#include "ledger/clock.h"
#include "report/load/load.h"
#include "report/symbols/rule.h"
#include "report/suppress/suppress.h"

/* ---- the age of a block; of an ended process, at its end ---- */

/* Returns the latest time in the ledger, for a process whose end was not recorded. */
static uint64_t last_time(const struct ledger_view *view)
{
	uint64_t last = 0;

	LEDGER_EACH(live, block, view)
		if (block->time_ns > last)
			last = block->time_ns;
	LEDGER_EACH(live_sample, sample, view)
		if (sample->time_ns > last)
			last = sample->time_ns;
	return last;
}

uint64_t build_now(const struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	uint64_t now = header->end_mono_ns;

	if (header->ended == LEDGER_RUNNING) {
		if (!process_alive(header->pid, header->start_ticks, b->process->host))
			return last_time(b->view);
		now = clock_ns(CLOCK_MONOTONIC);
	}
	return now > header->start_mono_ns ? now - header->start_mono_ns : 0;
}

void build_age(struct builder *b)
{
	uint64_t older_ns = b->ledger->older_ns, now;

	b->born_before_ns = UINT64_MAX;
	if (!older_ns)
		return;
	now = build_now(b);
	b->none_old = now < older_ns;
	b->born_before_ns = b->none_old ? 0 : now - older_ns;
}

bool build_is_young(const struct builder *b, const struct ledger_block *block)
{
	return b->none_old || block->time_ns > b->born_before_ns;
}

/* ---- groups ---- */

struct group {
	struct report_leak leak;
	const struct ledger_block *most; /* the block with the largest reference count */
	struct group *next;
};

static bool same_group(const void *value, const void *key)
{
	const struct group *a = value, *b = key;

	return a->leak.site == b->leak.site && a->leak.ignored == b->leak.ignored &&
	       a->leak.mapping == b->leak.mapping;
}

/* Returns the group of the blocks of SITE that were released while they had MAPPING, which is NULL
 * for all others. The group may be new. */
static struct group *intern_group(struct builder *b, const struct build_site *site, bool ignored,
				  const struct report_mapping *mapping)
{
	const struct group key = { { &site->site, .ignored = ignored, .mapping = mapping } };
	uint64_t hash = hash_number((uintptr_t)site, hash_number((uintptr_t)mapping, ignored));
	struct group *group = table_find(&b->groups, hash, same_group, &key);

	if (group)
		return group;
	group = arena_alloc(b->arena, sizeof(*group));
	*group = key;
	group->next = b->first_group;
	table_add(b->arena, &b->groups, hash, group);
	b->first_group = group;
	return group;
}

/* Returns the group of BLOCK, which may be new. Blocks of one call site form one group, except
 * those that the program ignores, and those that were released while mapped. */
static struct group *group_of(struct builder *b, const struct ledger_block *block)
{
	struct build_site *site = intern_site_of_block(b, block->site);
	bool ignored = (block->marked & LEDGER_BLOCK_IGNORED) != 0;

	if (LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_RELEASED)
		return intern_group(b, site, ignored, build_mapping(b, block));
	if (!site->groups[ignored])
		site->groups[ignored] = intern_group(b, site, ignored, NULL);
	return site->groups[ignored];
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

	if (site && ledger_site_is_object(b->view, site)) {
		*ARENA_ADD(b->arena, b->objects, b->object_count) = block;
		return;
	}
	sum->left_out_blocks = add_bounded(sum->left_out_blocks, 1);
	sum->left_out_bytes = add_bounded(sum->left_out_bytes, block->bytes);
}

/* Adds a live block that is younger than --older to the sum of younger blocks. */
static void leave_out_young(struct builder *b, const struct group *group,
			    const struct ledger_block *block)
{
	struct report_summary *sum = &b->process->summary;

	if (kind_is_object(group->leak.site->kind))
		return;
	sum->younger_blocks++;
	sum->younger_bytes = add_bounded(sum->younger_bytes, block->bytes);
}

bool build_is_selected(const struct builder *b, const struct ledger_block *block)
{
	return is_chosen(b->choice, block) && !build_is_young(b, block);
}

struct report_leak *build_group_of(struct builder *b, const struct ledger_block *block)
{
	return &group_of(b, block)->leak;
}

struct report_leak *build_known_group(const struct build_site *site)
{
	return site->groups[0] ? &site->groups[0]->leak : NULL;
}

void build_add_address(struct builder *b, struct report_leak *leak,
		       const struct ledger_block *block)
{
	if (!leak->addresses)
		leak->addresses = arena_alloc(b->arena, sizeof(*leak->addresses));
	leak->addresses->site = block->site;
	*ARENA_ADD(b->arena, leak->addresses->list, leak->addresses->count) = block->address;
}

/* Lists the thread of a new block of LEAK, as long as each block is of another thread. */
static void add_thread(struct builder *b, struct report_leak *leak, uint32_t thread)
{
	bool is_new = thread && leak->thread_count == leak->blocks && leak->blocks < 1000;

	for (size_t i = 0; i < leak->thread_count && is_new; i++)
		is_new = leak->threads[i] != thread;
	if (is_new)
		*ARENA_ADD(b->arena, leak->threads, leak->thread_count) = thread;
}

static void add_live(struct builder *b, const struct ledger_block *block)
{
	struct group *group;

	if (!is_chosen(b->choice, block)) {
		leave_out(b, block);
		return;
	}
	group = group_of(b, block);
	if (((const struct build_site *)group->leak.site)->is_object)
		*ARENA_ADD(b->arena, b->objects, b->object_count) = block;
	if (build_is_young(b, block)) {
		leave_out_young(b, group, block);
		return;
	}
	if (!ledger_site(b->view, block->site))
		b->lost_blocks++;
	add_thread(b, &group->leak, block->thread);
	group->leak.blocks++;
	group->leak.bytes = add_bounded(group->leak.bytes, block->bytes);
	if (!group->most || has_more_references(block, group->most))
		group->most = block;
	group->leak.references = group->most->references;
	build_add_name(b, &group->leak, block);
	if (b->choice->addresses)
		build_add_address(b, &group->leak, block);
}

void build_groups(struct builder *b)
{
	/* If the process ended during a free, the free did not happen, and the block is live. */
	LEDGER_EACH(block_slot, block, b->view)
		if (ledger_block_is_live(block->state, block->marked))
			add_live(b, block);
		else if (ledger_block_is_deferred(block->state, block->marked))
			*ARENA_ADD(b->arena, b->deferred, b->deferred_count) = block;
}

void build_sums(struct builder *b)
{
	struct report_summary *sum = &b->process->summary;
	const struct ledger_header *header = ledger_header(b->view);
	uint64_t ended = 0, live = 0;
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;
	bool counts = b->first_group && !sum->left_out_blocks && !sum->younger_blocks;
	struct build_site *of;

	while ((site = build_next_site(b, &walk))) {
		if (counts && (of = intern_code_site(b, site)->same))
			of->ended = add_bounded(of->ended, less(less(site->allocs, site->unseen),
								site->with_context));
		if (site->series) /* which may be in no chunk: then it is unreadable */
			b->chunks |= (uint64_t)1 << LEDGER_CHUNK_LIVE_SERIES;
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
	for (const struct group *group = b->first_group; group; group = group->next) {
		of = (struct build_site *)group->leak.site;
		of->ended = less(of->ended, group->leak.blocks);
		live = add_bounded(live, of->is_object ? 0 : group->leak.blocks);
	}
	for (size_t i = 0; i < b->deferred_count; i++)
		if ((site = ledger_site(b->view, b->deferred[i]->site)) &&
		    (of = intern_code_site(b, site)->same))
			of->ended = less(of->ended, 1);
	sum->deferred_blocks = b->deferred_count;
	live = add_bounded(live, add_bounded(sum->left_out_blocks, sum->younger_blocks));
	ended = add_bounded(ended, add_bounded(live, sum->deferred_blocks));
	sum->freed_blocks = less(sum->allocated_blocks, ended);
	sum->peak_bytes = header->peak_bytes;
	sum->errors = header->errors;
	b->process->refused = header->refused;
	b->process->recovered = header->recovered;
}

int build_compare_stacks(const struct report_stack *a, const struct report_stack *b)
{
	size_t count = a->count < b->count ? a->count : b->count;
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = compare_texts(a->frames[i].module, b->frames[i].module)
		    ?: compare_numbers(a->frames[i].offset, b->frames[i].offset);
	return r ?: compare_numbers(a->count, b->count) ?: compare_ints(a->cut, b->cut);
}

static int compare_sites(const struct report_site *a, const struct report_site *b)
{
	return strcmp(a->api, b->api) ?: strcmp(a->kind, b->kind)
	       ?: compare_ints(a->device, b->device) ?: build_compare_stacks(a->stack, b->stack);
}

/* Orders groups without a mapping first. */
static int compare_mappings(const struct report_mapping *a, const struct report_mapping *b)
{
	if (!a || !b)
		return (a != NULL) - (b != NULL);
	return build_compare_stacks(a->mapped.stack, b->mapped.stack)
	       ?: build_compare_stacks(a->released.stack, b->released.stack);
}

int build_compare_leaks(const void *left, const void *right)
{
	const struct report_leak *a = left, *b = right;

	return compare_numbers(b->keeps_bytes, a->keeps_bytes)
	       ?: compare_numbers(b->bytes, a->bytes) ?: compare_numbers(b->blocks, a->blocks)
	       ?: compare_sites(a->site, b->site) ?: compare_mappings(a->mapping, b->mapping);
}

void build_group_histories(struct builder *b)
{
	for (struct group *group = b->first_group; group; group = group->next)
		if (group->most && group->most->history && !group->leak.mapping)
			group->leak.history = build_history(b, group->most);
}

/* Adds LEAK to the sums of its list. */
static void add_to_sums(const struct report_leak *leak, uint64_t *blocks, uint64_t *bytes)
{
	*blocks = add_bounded(*blocks, leak->blocks);
	*bytes = add_bounded(*bytes, leak->bytes);
}

const char *build_suppress(struct builder *b, const struct report_stack *stack, uint64_t blocks,
			   uint64_t bytes)
{
	struct pattern_file *by = b->suppressions;
	int index = suppressions_match(by, stack->frames, stack->count);

	if (index < 0) {
		by = b->process->program_suppressions;
		index = suppressions_match(by, stack->frames, stack->count);
	}
	if (index < 0)
		return NULL;
	suppressions_count(by, index, blocks, bytes);
	return arena_printf(b->arena, "%s", by->rules[index].pattern.text);
}

/* Returns the name of the list of pending frees that LEAK's blocks are in, or NULL. Stacks do not
 * show whether they are in the list or in use. But at exit such a framework puts all blocks into
 * its list. So after exit() all blocks that are left are in it, if it has room for them. */
static const char *pending_list(const struct builder *b, const struct report_leak *leak)
{
	const struct report_summary *sum = &b->process->summary;
	const struct rule *list = leak->site->stack->pending, *other;
	uint64_t blocks = 0;

	if (!list || b->process->ended != REPORT_EXIT || sum->left_out_blocks ||
	    sum->younger_blocks)
		return NULL;
	for (const struct group *group = b->first_group; group && blocks <= list->limit;
	     group = group->next) {
		other = group->leak.site->stack->pending;
		if (other && group->leak.site->device == leak->site->device &&
		    strcmp(other->name, list->name) == 0)
			blocks = add_bounded(blocks, group->leak.blocks);
	}
	return blocks <= list->limit ? list->name : NULL;
}

static void classify(struct builder *b, struct report_leak *leak)
{
	bool is_object = kind_is_object(leak->site->kind);

	leak->freed_blocks = ((const struct build_site *)leak->site)->ended;
	leak->keeps_bytes = leak->bytes;
	leak->pattern = leak->ignored ? REPORT_IGNORED
				      : build_suppress(b, leak->site->stack,
						       is_object ? 0 : leak->blocks,
						       is_object ? 0 : leak->bytes);
	if (!is_object && !leak->pattern)
		leak->cache = leak->site->stack->cache ?: pending_list(b, leak);
}

/* Moves LEAK to one of the process's lists. A suppressed object is listed with the others, but
 * never fails the gate. */
static void list_group(struct builder *b, struct report_leak *leak)
{
	struct report_process *process = b->process;
	struct report_summary *sum = &process->summary;

	if (kind_is_object(leak->site->kind)) {
		leak->objects = arena_alloc(b->arena, sizeof(*leak->objects));
		*ARENA_ADD(b->arena, process->objects, process->object_count) = *leak;
	} else if (leak->pattern) {
		*ARENA_ADD(b->arena, process->suppressed, process->suppressed_count) = *leak;
		add_to_sums(leak, &sum->suppressed_blocks, &sum->suppressed_bytes);
	} else if (leak->cache) {
		*ARENA_ADD(b->arena, process->cached, process->cached_count) = *leak;
		add_to_sums(leak, &sum->cached_blocks, &sum->cached_bytes);
	} else if (process->attached) {
		*ARENA_ADD(b->arena, process->kept, process->kept_count) = *leak;
		add_to_sums(leak, &sum->kept_blocks, &sum->kept_bytes);
	} else {
		*ARENA_ADD(b->arena, process->leaks, process->leak_count) = *leak;
		add_to_sums(leak, &sum->leaked_blocks, &sum->leaked_bytes);
		sum->keeps_bytes = add_bounded(sum->keeps_bytes, leak->keeps_bytes);
	}
}

void classify_groups(struct builder *b)
{
	struct report_process *process = b->process;

	for (struct group *group = b->first_group; group; group = group->next)
		if (group->most) /* else all blocks of the group are too young */
			classify(b, &group->leak);
	build_keeps(b);
	for (struct group *group = b->first_group; group; group = group->next)
		if (group->most)
			list_group(b, &group->leak);
	SORT(process->leaks, process->leak_count, build_compare_leaks);
	SORT(process->kept, process->kept_count, build_compare_leaks);
	SORT(process->suppressed, process->suppressed_count, build_compare_leaks);
	SORT(process->cached, process->cached_count, build_compare_leaks);
	SORT(process->objects, process->object_count, build_compare_leaks);
}
