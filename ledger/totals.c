/* SPDX-License-Identifier: MIT
 *
 * Reads each slot of a block twice, so a slot that is reused meanwhile counts once. Must not trust
 * the bytes of the ledger: sums may overflow, but no access is out of bounds.
 */
#include "ledger/totals.h"

#include <stdatomic.h>

#include "ledger/shared.h"

/* Returns true if SITE counts memory. Most call sites have the same few kinds, so the last answer
 * is stored in *KIND and *ANSWER. */
static bool is_memory(const struct ledger_view *view, const struct ledger_site *site,
		      uint32_t *kind, bool *answer)
{
	if (site->kind != *kind) {
		*kind = site->kind;
		*answer = !ledger_site_is_object(view, site);
	}
	return *answer;
}

/* Stores the call site and the size of the live block in the slot. Returns false if the slot has no
 * live block, or if it changed meanwhile. */
static bool read_block(const struct ledger_block *block, uint32_t *ret_site, uint64_t *ret_bytes)
{
	uint32_t state = atomic_load_explicit(&SHARED(block->state), memory_order_acquire);
	uint32_t marked = atomic_load_explicit(&SHARED(block->marked), memory_order_relaxed);

	if (!ledger_block_is_live(state, marked))
		return false;
	*ret_site = atomic_load_explicit(&SHARED(block->site), memory_order_relaxed);
	*ret_bytes = atomic_load_explicit(&SHARED(block->bytes), memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&SHARED(block->state), memory_order_relaxed) >> 8 == state >> 8;
}

void ledger_totals(const struct ledger_view *view, struct ledger_totals *ret)
{
	uint64_t live_blocks = 0, live_bytes = 0, bytes;
	struct ledger_walk walk = { 0, 0 };
	const struct ledger_site *site;
	const struct ledger_block *block;
	bool answer = true;
	uint32_t kind = 0, ref;

	*ret = (struct ledger_totals){ 0 };
	while ((block = ledger_next(view, &walk, LEDGER_CHUNK_BLOCKS, sizeof(*block)))) {
		if (!read_block(block, &ref, &bytes) || !(site = ledger_site(view, ref)) ||
		    !is_memory(view, site, &kind, &answer))
			continue;
		live_blocks++;
		live_bytes += bytes;
	}
	walk = (struct ledger_walk){ 0, 0 };
	while ((site = ledger_next(view, &walk, LEDGER_CHUNK_SITES, sizeof(*site)))) {
		if (!is_memory(view, site, &kind, &answer))
			continue;
		ret->allocated_blocks +=
			atomic_load_explicit(&SHARED(site->allocs), memory_order_relaxed);
		ret->allocated_bytes +=
			atomic_load_explicit(&SHARED(site->bytes), memory_order_relaxed);
	}
	if (ret->allocated_blocks > live_blocks)
		ret->freed_blocks = ret->allocated_blocks - live_blocks;
	if (ret->allocated_bytes > live_bytes)
		ret->freed_bytes = ret->allocated_bytes - live_bytes;
}

static void add_difference(uint64_t *sum, uint64_t from, uint64_t to)
{
	if (to > from)
		*sum += to - from;
}

void ledger_totals_add(struct ledger_totals *sum, const struct ledger_totals *from,
		       const struct ledger_totals *to)
{
	add_difference(&sum->allocated_blocks, from->allocated_blocks, to->allocated_blocks);
	add_difference(&sum->allocated_bytes, from->allocated_bytes, to->allocated_bytes);
	add_difference(&sum->freed_blocks, from->freed_blocks, to->freed_blocks);
	add_difference(&sum->freed_bytes, from->freed_bytes, to->freed_bytes);
}
