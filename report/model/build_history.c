/* SPDX-License-Identifier: MIT
 *
 * Reads the retains and releases of a handle and matches each release with a retain. The ledger
 * does not record the matches, so they are guesses, except if only one reference is open. Also
 * reads the records that explain why a released block is still allocated, and those of imports.
 */
#include "report/model/builder.h"

static int compare_orders(const void *left, const void *right)
{
	const struct ledger_reference *a = *(const struct ledger_reference *const *)left;
	const struct ledger_reference *b = *(const struct ledger_reference *const *)right;

	return compare_numbers(a->order, b->order);
}

/* Compares also function and file, because a frame of Python has neither module nor offset. */
static bool same_place(const struct report_frame *a, const struct report_frame *b)
{
	return a->offset == b->offset && a->line == b->line && is_same_text(a->module, b->module) &&
	       is_same_text(a->function, b->function) && is_same_text(a->file, b->file);
}

/* Returns a score for the similarity of two stacks. Each common frame from main on counts two. If
 * both stacks continue in the same function, but at different lines, one is added. Among stacks
 * with the same callers, similar depths have a higher score. */
static uint64_t alike(const struct report_stack *a, const struct report_stack *b)
{
	size_t same = 0, count = a->count < b->count ? a->count : b->count;
	const struct report_frame *next_a, *next_b;
	size_t depth;
	bool left_together;

	while (same < count &&
	       same_place(&a->frames[a->count - 1 - same], &b->frames[b->count - 1 - same]))
		same++;
	depth = a->count > b->count ? a->count - b->count : b->count - a->count;
	if (same == count)
		return ((uint64_t)same * 2) << 32 | (UINT32_MAX - depth);
	next_a = &a->frames[a->count - 1 - same];
	next_b = &b->frames[b->count - 1 - same];
	left_together = next_a->function && next_b->function &&
			strcmp(next_a->function, next_b->function) == 0;
	return ((uint64_t)same * 2 + left_together) << 32 | (UINT32_MAX - depth);
}

/* Matches the event RELEASE with the open reference whose stack is most similar. */
static void pair(struct report_history *history, size_t release)
{
	struct report_reference *events = history->events;
	size_t best = SIZE_MAX, open = 0;
	uint64_t best_alike = 0;

	for (size_t i = 0; i < release; i++) {
		uint64_t now;

		if (events[i].op == REPORT_RELEASE || events[i].partner >= 0)
			continue;
		now = alike(events[i].stack, events[release].stack);
		open++;
		if (best == SIZE_MAX || now >= best_alike) { /* on equal scores the latest */
			best = i;
			best_alike = now;
		}
	}
	if (best == SIZE_MAX)
		return;
	events[release].partner = (int)best;
	events[best].partner = (int)release;
	events[release].guess = events[best].guess = open > 1;
}

static struct report_reference read_reference(struct builder *b, enum report_op op, uint32_t api,
					      uint32_t stack, uint64_t time_ns)
{
	return (struct report_reference){ .op = op, .api = build_text(b, api),
					  .time_ns = time_ns, .stack = build_stack(b, stack),
					  .partner = -1 };
}

/* Copies the valid events of RECORD in order. Returns their number. */
static size_t in_order(const struct ledger_history *record,
		       const struct ledger_reference *ret[LEDGER_HISTORY_EVENTS])
{
	size_t count = 0;

	for (unsigned int i = 0; i < LEDGER_HISTORY_EVENTS; i++) {
		const struct ledger_reference *event = &record->events[i];

		if (record->kept >> i & 1 && event->order &&
		    (event->op == LEDGER_RETAIN || event->op == LEDGER_RELEASE))
			ret[count++] = event;
	}
	SORT(ret, count, compare_orders);
	return count;
}

static struct report_reference read_created(struct builder *b, const struct ledger_block *block)
{
	const struct ledger_site *site = ledger_site(b->view, block->site);

	return read_reference(b, REPORT_CREATE, site ? site->api : 0, site ? site->stack : 0,
			      block->time_ns);
}

static void read_events(struct builder *b, const struct ledger_block *block,
			const struct ledger_history *record, struct report_history *ret)
{
	const struct ledger_reference *sorted[LEDGER_HISTORY_EVENTS];
	size_t count = in_order(record, sorted);
	int64_t open = 1;

	ret->events = arena_alloc(b->arena, (count + 1) * sizeof(*ret->events));
	ret->events[ret->count++] = read_created(b, block);
	for (size_t i = 0; i < count; i++) {
		bool retains = sorted[i]->op == LEDGER_RETAIN;

		ret->events[ret->count] =
			read_reference(b, retains ? REPORT_RETAIN : REPORT_RELEASE, sorted[i]->api,
				       sorted[i]->stack, sorted[i]->time_ns);
		if (!retains)
			pair(ret, ret->count);
		open += retains ? 1 : -1;
		ret->count++;
	}
	ret->references = block->references;
	ret->left_out = record->kept >> 32;
	ret->complete = record->lost == 0 && open == (int64_t)block->references;
}

const struct report_history *build_history(struct builder *b, const struct ledger_block *block)
{
	const struct ledger_history *record = ledger_history(b->view, block->history);
	struct report_history *history;

	/* Ignore a history that belongs to another block. */
	if (!record || record->block != build_ref(b, block))
		return NULL;
	history = arena_alloc(b->arena, sizeof(*history));
	read_events(b, block, record, history);
	return history;
}

/* ---- calls that released a block, and why it is still allocated ---- */

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

const struct ledger_block *build_named_block(const struct builder *b, uint64_t name)
{
	const struct ledger_block *block = ledger_block_slot(b->view, (uint32_t)name);

	if (!block || block->state >> 8 != name >> 32 ||
	    LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_UNUSED)
		return NULL;
	return block;
}

/* Adds RECORD to TABLE for the block with NAME. If there are several records, the first one is
 * used. */
static void add_reason(struct builder *b, struct table *table, uint64_t name, const void *record)
{
	if (build_named_block(b, name) && !table_find_ref(table, (uint32_t)name))
		table_add_ref(b->arena, table, (uint32_t)name, record);
}

void build_reasons(struct builder *b)
{
	LEDGER_EACH(mapped, mapped, b->view)
		add_reason(b, &b->mapped_refs, mapped->block, mapped);
	LEDGER_EACH(event_wait, wait, b->view)
		add_reason(b, &b->wait_refs, wait->block, wait);
	LEDGER_EACH(ipc, import, b->view)
		if (import->flags & LEDGER_IPC_OPENED && import->bytes)
			add_reason(b, &b->import_refs, import->block, import);
}

const void *build_reason(const struct builder *b, const struct table *table,
			 const struct ledger_block *block)
{
	const struct ref_node *node = table_find_ref(table, build_ref(b, block));

	return node ? node->value : NULL;
}

const struct report_mapping *build_mapping(struct builder *b, const struct ledger_block *block)
{
	const struct ledger_mapped *record = build_reason(b, &b->mapped_refs, block);
	uint64_t released_ns;
	const struct report_mapping key = {
		.mapped = build_event(b, record ? record->api : 0, record ? record->stack : 0, 0),
		.released = build_release(b, block, &released_ns),
	};

	/* Strings and stacks are interned, so their pointers can be compared. */
	return table_intern(b->arena, &b->mappings, &key, sizeof(key), sizeof(key));
}
