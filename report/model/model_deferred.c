/* SPDX-License-Identifier: MIT
 *
 * Reads deferred frees: the sums of the header and the timeline. For each block whose free was
 * still deferred at the end, also reads the calls that created and released it, and its holders.
 * Lists the call sites with late frees.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/model/builder.h"
#include "report/util/number.h"

/* Returns the call that allocated a block of BYTES at the call site SITE_REF, and stores the
 * block's kind. */
static struct report_event read_made(struct builder *b, uint32_t site_ref, uint64_t bytes,
				     const char **ret_kind)
{
	const struct ledger_site *site = ledger_site(b->view, site_ref);

	*ret_kind = site ? build_name(b, site->kind) : build_unknown;
	return build_event(b, site ? site->api : 0, site ? site->stack : 0, bytes);
}

/* Returns the block with NAME (see ledger_block_name()), or NULL if its slot was reused. */
static const struct ledger_block *named_block(struct builder *b, uint64_t name)
{
	const struct ledger_block *block = ledger_block(b->view, (uint32_t)name);

	if (!block || block->state >> 8 != name >> 32 ||
	    LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_UNUSED)
		return NULL;
	return block;
}

static void read_longest(struct builder *b, struct report_deferred_frees *frees)
{
	const struct ledger_header *header = ledger_header(b->view);
	const struct ledger_wait *wait;

	if (header->longest_wait != 1 && header->longest_wait != 2)
		return;
	wait = &header->waits[header->longest_wait - 1];
	frees->longest_wait_ns = wait->ns;
	frees->longest.bytes = wait->bytes;
	frees->longest.allocated =
		read_made(b, wait->site, wait->bytes, &frees->longest.kind);
	frees->longest.released = build_event(b, wait->api, wait->stack, 0);
}

/* Finds the last release in the history of BLOCK. */
struct report_event build_release(struct builder *b, const struct ledger_block *block,
				  uint64_t *ret_ns)
{
	const struct report_history *history = build_history(b, block);

	*ret_ns = 0;
	for (size_t i = history ? history->count : 0; i > 0; i--) {
		const struct report_reference *event = &history->events[i - 1];

		if (event->op != REPORT_RELEASE)
			continue;
		*ret_ns = event->time_ns;
		return (struct report_event){ .api = event->api, .stack = event->stack };
	}
	return (struct report_event){ .stack = &build_no_stack };
}

/* ---- reasons recorded in the ledger ---- */

/* Adds RECORD to TABLE for the block with NAME. If there are several records, the first one is
 * used. */
static void add_reason(struct builder *b, struct table *table, uint64_t name, const void *record)
{
	if (named_block(b, name) && !table_find_ref(table, (uint32_t)name))
		table_add_ref(b->arena, table, (uint32_t)name, record);
}

void build_reasons(struct builder *b)
{
	struct ledger_walk mappings = { 0 }, waits = { 0 };
	const struct ledger_mapped *mapped;
	const struct ledger_event_wait *wait;

	while ((mapped = ledger_next_mapped(b->view, &mappings)))
		add_reason(b, &b->mapped_refs, mapped->block, mapped);
	while ((wait = ledger_next_event_wait(b->view, &waits)))
		add_reason(b, &b->wait_refs, wait->block, wait);
}

/* Returns the record of BLOCK in TABLE, or NULL. */
static const void *find_reason(struct builder *b, const struct table *table,
			       const struct ledger_block *block)
{
	const struct ref_node *node = table_find_ref(table, build_ref(b, block));

	return node ? node->value : NULL;
}

static bool same_mapping(const void *value, const void *key)
{
	const struct report_mapping *a = value, *b = key;

	/* Strings and stacks are interned, so pointers can be compared. */
	return a->mapped.api == b->mapped.api && a->mapped.stack == b->mapped.stack &&
	       a->released.api == b->released.api && a->released.stack == b->released.stack;
}

static const struct report_mapping *intern_mapping(struct builder *b,
						   const struct report_mapping *key)
{
	uint64_t hash = hash_number((uintptr_t)key->mapped.stack,
				    hash_number((uintptr_t)key->released.stack, 0));
	struct report_mapping *ret = table_find(&b->mappings, hash, same_mapping, key);

	if (ret)
		return ret;
	ret = arena_alloc(b->arena, sizeof(*ret));
	*ret = *key;
	table_add(&b->mappings, hash, ret);
	return ret;
}

const struct report_mapping *build_mapping(struct builder *b, const struct ledger_block *block)
{
	const struct ledger_mapped *record = find_reason(b, &b->mapped_refs, block);
	uint64_t released_ns;
	const struct report_mapping key = {
		.mapped = build_event(b, record ? record->api : 0, record ? record->stack : 0, 0),
		.released = build_release(b, block, &released_ns),
	};

	return intern_mapping(b, &key);
}

/* ---- deferred frees ---- */

static struct report_deferred read_deferred(struct builder *b, const struct ledger_block *block)
{
	const struct ledger_event_wait *wait = find_reason(b, &b->wait_refs, block);
	struct report_deferred ret = {
		.blocks = 1, .bytes = block->bytes, .address = block->address,
		.ignored = (block->marked & LEDGER_BLOCK_IGNORED) != 0,
		.reason = wait ? REPORT_DEFERRED_USER_EVENT : REPORT_DEFERRED_UNKNOWN,
		.event = build_event(b, wait ? wait->event_api : 0, wait ? wait->event_stack : 0,
				     0),
		.command = build_event(b, wait ? wait->api : 0, wait ? wait->stack : 0, 0),
	};

	ret.allocated = read_made(b, block->site, block->bytes, &ret.kind);
	ret.released = build_release(b, block, &ret.released_ns);
	return ret;
}

static int compare_addresses(const void *left, const void *right)
{
	const struct report_deferred *a = left, *b = right;

	return compare_numbers(a->address, b->address);
}

static struct report_deferred *find_deferred(const struct report_deferred_frees *frees,
					     uint64_t address)
{
	struct report_deferred key = { .address = address };

	return frees->group_count ? bsearch(&key, frees->groups, frees->group_count,
					    sizeof(*frees->groups), compare_addresses)
				  : NULL;
}

#define HOLDERS_MAX 8 /* holders per block; more do not explain more */

static void add_holder(struct builder *b, struct report_deferred *deferred, const char *what,
		       const struct ledger_block *by)
{
	struct report_holder *holder;
	unsigned int count = 0;

	for (const struct report_holder *other = deferred->holders; other; other = other->next)
		if (other->address == by->address || ++count == HOLDERS_MAX)
			return;
	holder = arena_alloc(b->arena, sizeof(*holder));
	holder->what = what;
	holder->address = by->address;
	holder->allocated = read_made(b, by->site, by->bytes, &holder->kind);
	holder->next = deferred->holders;
	deferred->holders = holder;
}

static const char *part_word(struct builder *b, const struct ledger_block *block)
{
	const struct ledger_site *site = ledger_site(b->view, block->site);
	static const char image[] = "cl-image";
	uint32_t length = 0;
	const char *kind = site ? ledger_string(b->view, site->kind, &length) : NULL;

	return kind && length == sizeof(image) - 1 && memcmp(kind, image, length) == 0
		       ? "image" : "sub-buffer";
}

/* Adds a holder for each sub-buffer or image that exists: it keeps the whole buffer allocated. */
static void read_parts(struct builder *b, const struct report_deferred_frees *frees)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;

	while (frees->group_count && (block = ledger_next_block_slot(b->view, &walk))) {
		struct report_deferred *deferred;

		if (LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_UNUSED || !block->parent)
			continue;
		deferred = find_deferred(frees, block->parent);
		if (!deferred)
			continue;
		add_holder(b, deferred, part_word(b, block), block);
		if (deferred->reason == REPORT_DEFERRED_UNKNOWN)
			deferred->reason = REPORT_DEFERRED_PART;
	}
}

static void read_arguments(struct builder *b, const struct report_deferred_frees *frees,
			   const struct ledger_kernel_args *record,
			   const struct ledger_block *kernel)
{
	for (unsigned int i = 0; i < LEDGER_KERNEL_ARGS_MAX; i++) {
		const struct ledger_block *block = named_block(b, record->arg[i]);
		struct report_deferred *deferred = NULL;

		if (block && LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_RELEASED)
			deferred = find_deferred(frees, block->address);
		if (deferred)
			add_holder(b, deferred, "kernel", kernel);
	}
}

static void read_kernel_args(struct builder *b, const struct report_deferred_frees *frees)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_kernel_args *record;

	while (frees->group_count && (record = ledger_next_kernel_args(b->view, &walk))) {
		const struct ledger_block *kernel = named_block(b, record->kernel);

		if (kernel)
			read_arguments(b, frees, record, kernel);
	}
}

static int compare_deferred(const void *left, const void *right)
{
	const struct report_deferred *a = left, *b = right;

	return compare_numbers(b->bytes, a->bytes)
	       ?: compare_numbers(a->released_ns, b->released_ns);
}

/* Counts the waiting time of a block that was not freed before the process ended. */
static void wait_to_the_end(struct builder *b, struct report_deferred_frees *frees)
{
	const struct ledger_header *header = ledger_header(b->view);
	uint64_t end = header->end_mono_ns > header->start_mono_ns
			       ? header->end_mono_ns - header->start_mono_ns : 0;

	for (size_t i = 0; i < frees->group_count; i++) {
		struct report_deferred *deferred = &frees->groups[i];

		frees->deferred_blocks++;
		frees->deferred_bytes = add_bounded(frees->deferred_bytes, deferred->bytes);
		if (!deferred->released_ns || end <= deferred->released_ns ||
		    end - deferred->released_ns <= frees->longest_wait_ns)
			continue;
		frees->longest_wait_ns = end - deferred->released_ns;
		frees->longest = *deferred;
	}
}

static void read_all_deferred(struct builder *b, struct report_deferred_frees *frees)
{
	/* A released block that is mapped is a leak. */
	size_t count = COUNT_RECORDS(b, ledger_next_deferred);
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;

	frees->groups = arena_alloc(b->arena, count * sizeof(*frees->groups));
	while (frees->group_count < count && (block = ledger_next_deferred(b->view, &walk)))
		frees->groups[frees->group_count++] = read_deferred(b, block);
}

static void sort_deferred(struct report_deferred_frees *frees,
			  int (*compare)(const void *, const void *))
{
	SORT(frees->groups, frees->group_count, compare);
}

/* ---- groups ---- */

static bool same_event(const struct report_event *a, const struct report_event *b)
{
	return a->api == b->api && a->stack == b->stack; /* interned */
}

static bool same_holders(const struct report_holder *a, const struct report_holder *b)
{
	for (; a && b; a = a->next, b = b->next)
		if (a->what != b->what || a->kind != b->kind ||
		    !same_event(&a->allocated, &b->allocated))
			return false;
	return a == b;
}

static bool same_deferred(const void *value, const void *key)
{
	const struct report_deferred *a = value, *b = key;

	return a->kind == b->kind && a->reason == b->reason && a->ignored == b->ignored &&
	       same_event(&a->released, &b->released) &&
	       same_event(&a->allocated, &b->allocated) && same_event(&a->event, &b->event) &&
	       same_event(&a->command, &b->command) && same_holders(a->holders, b->holders);
}

/* Merges blocks with the same calls, reason and holders into groups. */
static void group_deferred(struct report_deferred_frees *frees)
{
	struct table table = { 0 };
	size_t count = 0;

	for (size_t i = 0; i < frees->group_count; i++) {
		const struct report_deferred *deferred = &frees->groups[i];
		uint64_t hash = hash_number((uintptr_t)deferred->released.stack,
					    hash_number((uintptr_t)deferred->allocated.stack, 0));
		struct report_deferred *first = table_find(&table, hash, same_deferred, deferred);

		if (first) {
			first->blocks++;
			first->bytes = add_bounded(first->bytes, deferred->bytes);
			continue;
		}
		frees->groups[count] = *deferred;
		table_add(&table, hash, &frees->groups[count++]);
	}
	frees->group_count = count;
	table_finish(&table);
}

void build_deferred(struct builder *b)
{
	struct report_deferred_frees *frees = &b->process->deferred;

	frees->peak_bytes = ledger_header(b->view)->released_peak_bytes;
	frees->peak_ns = ledger_header(b->view)->released_peak_ns;
	frees->longest.allocated.stack = &build_no_stack;
	frees->longest.released.stack = &build_no_stack;
	read_longest(b, frees);
	frees->samples = build_samples(b, LEDGER_CHUNK_DEFERRED, &frees->sample_count);
	read_all_deferred(b, frees);
	sort_deferred(frees, compare_addresses);
	read_parts(b, frees);
	read_kernel_args(b, frees);
	wait_to_the_end(b, frees);
	group_deferred(frees);
	sort_deferred(frees, compare_deferred);
}

bool report_deferred_fails(const struct report_deferred *deferred)
{
	return deferred->reason == REPORT_DEFERRED_USER_EVENT && !deferred->pattern;
}

/* ---- frees after the driver had begun to shut down ---- */

/* Adds the counters of RECORD to the element of its call site. */
static void add_late(struct builder *b, const struct ledger_site *record)
{
	struct report_process *process = b->process;
	struct build_site *site = intern_site(b, record);

	if (!site->late) {
		site->late = &process->late[process->late_count++];
		site->late->site = &site->site;
	}
	site->late->blocks = add_bounded(site->late->blocks, record->late);
}

/* Returns the next call site of memory with late frees, or NULL. */
static const struct ledger_site *next_late(const struct ledger_view *view,
					   struct ledger_walk *walk)
{
	const struct ledger_site *site;

	while ((site = ledger_next_site(view, walk)))
		if (site->late && !ledger_site_is_object(view, site))
			break;
	return site;
}

void build_late(struct builder *b)
{
	size_t count = COUNT_RECORDS(b, next_late);
	struct ledger_walk walk = { 0 };
	const struct ledger_site *site;

	b->process->late = arena_alloc(b->arena, count * sizeof(*b->process->late));
	while (b->process->late_count < count && (site = next_late(b->view, &walk)))
		add_late(b, site);
}
