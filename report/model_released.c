/* SPDX-License-Identifier: MIT
 *
 * What was released and not freed: the figures of the header, the timeline, and for each
 * block that was still in that state who made it, who released it, and what held it as far
 * as the ledger knows.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "number.h"

static int read_made(struct builder *b, uint32_t row_ref, uint64_t bytes,
		     struct report_event *ret, const char **ret_kind)
{
	const struct ledger_row *row = ledger_row(b->view, row_ref);
	int r;

	*ret = (struct report_event){ .stack = &build_no_stack };
	*ret_kind = NULL;
	if (!row) {
		*ret_kind = "unknown";
		return 0;
	}
	r = build_text(b, row->api, &ret->api);
	if (r == 0)
		r = build_text(b, row->kind, ret_kind);
	if (r == 0)
		r = build_stack(b, row->stack, &ret->stack);
	ret->bytes = ret->api ? bytes : 0;
	if (!*ret_kind)
		*ret_kind = "unknown";
	return r;
}

static int read_longest(struct builder *b, struct report_released *released)
{
	const struct ledger_header *header = ledger_header(b->view);
	const struct ledger_wait *wait;
	int r;

	if (header->longest_wait != 1 && header->longest_wait != 2)
		return 0;
	wait = &header->waits[header->longest_wait - 1];
	released->longest_wait_ns = wait->ns;
	released->longest.bytes = wait->bytes;
	r = read_made(b, wait->row, wait->bytes, &released->longest.allocated,
		      &released->longest.kind);
	if (r == 0)
		r = build_text(b, wait->api, &released->longest.released.api);
	return r < 0 ? r : build_stack(b, wait->stack, &released->longest.released.stack);
}

/* The last release in the history of BLOCK. */
static int read_release(struct builder *b, const struct ledger_block *block,
			struct report_held *held)
{
	const struct report_history *history = NULL;
	int r = build_history(b, block, &history);

	held->released.stack = &build_no_stack;
	for (size_t i = history ? history->count : 0; i > 0; i--) {
		const struct report_reference *event = &history->events[i - 1];

		if (event->op != REPORT_RELEASE)
			continue;
		held->released.api = event->api;
		held->released.stack = event->stack;
		held->released_ns = event->time_ns;
		break;
	}
	return r;
}

static int read_held(struct builder *b, const struct ledger_block *block, struct report_held *held)
{
	int r = read_made(b, block->row, block->bytes, &held->allocated, &held->kind);

	held->bytes = block->bytes;
	held->address = block->address;
	return r < 0 ? r : read_release(b, block, held);
}

static int compare_addresses(const void *left, const void *right)
{
	const struct report_held *a = left, *b = right;

	return a->address < b->address ? -1 : a->address > b->address;
}

static struct report_held *find_held(const struct report_released *released, uint64_t address)
{
	struct report_held key = { .address = address };

	return released->held_count
		       ? bsearch(&key, released->held, released->held_count,
				 sizeof(*released->held), compare_addresses)
		       : NULL;
}

#define HOLDERS_MAX 8 /* of one block; more explain no better */

static int add_holder(struct builder *b, struct report_held *held, const char *what,
		      const struct ledger_block *by)
{
	struct report_holder *holder;
	unsigned int count = 0;
	int r;

	for (const struct report_holder *other = held->holders; other; other = other->next)
		if (other->address == by->address || ++count == HOLDERS_MAX)
			return 0;
	holder = pool_alloc(b->pool, sizeof(*holder));
	if (!holder)
		return -ENOMEM;
	holder->what = what;
	holder->address = by->address;
	r = read_made(b, by->row, by->bytes, &holder->allocated, &holder->kind);
	holder->next = held->holders;
	held->holders = holder;
	return r;
}

/* A part of a buffer keeps all of it. */
static int read_parts(struct builder *b, const struct report_released *released)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;
	int r = 0;

	while (r == 0 && released->held_count &&
	       (block = ledger_next(b->view, &walk, LEDGER_CHUNK_BLOCKS, sizeof(*block)))) {
		struct report_held *held;

		if (LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_UNUSED || !block->parent)
			continue;
		held = find_held(released, block->parent);
		if (held)
			r = add_holder(b, held, "sub-buffer", block);
	}
	return r;
}

/* The block that NAME names, if it still is that one. */
static const struct ledger_block *named_block(struct builder *b, uint64_t name)
{
	const struct ledger_block *block = ledger_block(b->view, (uint32_t)name);

	if (!block || block->state >> 8 != name >> 32 ||
	    LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_UNUSED)
		return NULL;
	return block;
}

static int read_arguments(struct builder *b, const struct report_released *released,
			  const struct ledger_holds *record, const struct ledger_block *kernel)
{
	int r = 0;

	for (unsigned int i = 0; i < LEDGER_HOLDS_ARGUMENTS && r == 0; i++) {
		const struct ledger_block *block = named_block(b, record->held[i]);
		struct report_held *held = NULL;

		if (block && LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_RELEASED)
			held = find_held(released, block->address);
		if (held)
			r = add_holder(b, held, "kernel", kernel);
	}
	return r;
}

static int read_holds(struct builder *b, const struct report_released *released)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_holds *record;
	int r = 0;

	while (r == 0 && released->held_count &&
	       (record = ledger_next(b->view, &walk, LEDGER_CHUNK_HOLDS, sizeof(*record)))) {
		const struct ledger_block *kernel = named_block(b, record->holder);

		if (kernel)
			r = read_arguments(b, released, record, kernel);
	}
	return r;
}

static int compare_held(const void *left, const void *right)
{
	const struct report_held *a = left, *b = right;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->released_ns < b->released_ns ? -1 : a->released_ns > b->released_ns;
}

/* What is held at the end waits until then. */
static void wait_to_the_end(struct builder *b, struct report_released *released)
{
	const struct ledger_header *header = ledger_header(b->view);
	uint64_t end = header->end_mono_ns > header->start_mono_ns
			       ? header->end_mono_ns - header->start_mono_ns : 0;

	for (size_t i = 0; i < released->held_count; i++) {
		struct report_held *held = &released->held[i];

		released->held_bytes = add_bounded(released->held_bytes, held->bytes);
		if (!held->released_ns || end <= held->released_ns ||
		    end - held->released_ns <= released->longest_wait_ns)
			continue;
		released->longest_wait_ns = end - held->released_ns;
		released->longest = *held;
	}
}

static int read_all_held(struct builder *b, struct report_released *released)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_block *block;
	size_t count = 0;
	int r = 0;

	while ((block = ledger_next(b->view, &walk, LEDGER_CHUNK_BLOCKS, sizeof(*block))))
		count += LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_RELEASED;
	released->held = pool_alloc(b->pool, count * sizeof(*released->held));
	if (!released->held)
		return -ENOMEM;
	walk = (struct ledger_walk){ 0 };
	while (r == 0 && released->held_count < count &&
	       (block = ledger_next(b->view, &walk, LEDGER_CHUNK_BLOCKS, sizeof(*block))))
		if (LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_RELEASED)
			r = read_held(b, block, &released->held[released->held_count++]);
	return r;
}

static void sort_held(struct report_released *released,
		      int (*compare)(const void *, const void *))
{
	if (released->held_count)
		qsort(released->held, released->held_count, sizeof(*released->held), compare);
}

int build_released(struct builder *b)
{
	struct report_released *released = &b->process->released;
	int r;

	released->peak_bytes = ledger_header(b->view)->released_peak_bytes;
	released->peak_ns = ledger_header(b->view)->released_peak_ns;
	released->longest.allocated.stack = &build_no_stack;
	released->longest.released.stack = &build_no_stack;
	r = read_longest(b, released);
	if (r == 0)
		r = build_samples(b, LEDGER_CHUNK_RELEASED, &released->samples,
				  &released->sample_count);
	if (r == 0)
		r = read_all_held(b, released);
	if (r < 0)
		return r;
	sort_held(released, compare_addresses);
	r = read_parts(b, released);
	if (r == 0)
		r = read_holds(b, released);
	sort_held(released, compare_held);
	wait_to_the_end(b, released);
	return r;
}

int report_held_by_part(const struct report_held *held)
{
	for (const struct report_holder *holder = held->holders; holder; holder = holder->next)
		if (strcmp(holder->what, "sub-buffer") == 0)
			return 1;
	return 0;
}
