/* SPDX-License-Identifier: MIT
 *
 * Records allocations, answers what is live at an address, and settles driver calls that were left
 * by a jump. Frees are in free.c. Must not call the driver, and holds no lock while it unwinds or
 * writes stacks, except the thread's own.
 */
#include "interpose/block/block_state_hot.h"

#include "interpose/block/blocks.h"
#include "interpose/block/queries.h"
#include "interpose/block/driver_call.h"
#include "interpose/block/timeline.h"
#include "interpose/dispatch/variants.h"
#include "interpose/recorder/thread_state_hot.h"
#include "interpose/stack/unwinder.h"

/* ---- queries ---- */

bool block_live(struct recorder *recorder, uint64_t key, struct ledger_block *ret)
{
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;
	bool live;

	lock_take(&shard->lock);
	entry = entry_find(shard, key);
	live = entry && entry->block;
	if (live)
		entry_tell(entry, ret);
	lock_give(&shard->lock);
	return live;
}

bool record_is_live(const struct site *site, uint64_t address)
{
	struct recorder *recorder = recorder_enter();
	struct ledger_block block;
	bool live;

	if (!recorder)
		return false;
	live = block_live(recorder, key_of(site, address), &block);
	recorder_leave();
	return live;
}

int record_device_of(uint64_t address)
{
	struct recorder *recorder = recorder_enter();
	struct ledger_block block;
	int device = -1;

	if (!recorder)
		return -1;
	if (block_live(recorder, key_in(SPACE_MEMORY, address), &block))
		device = ((const struct ledger_row *)ledger_at(&recorder->writer,
							       block.row))->device;
	recorder_leave();
	return device;
}

uint64_t record_name_of(struct recorder *recorder, enum api api, uint64_t handle)
{
	uint64_t key = key_of_object(api, handle);
	struct shard *shard = shard_of(recorder, key);
	const struct ledger_block *block;
	struct entry *entry;
	uint64_t name = 0;

	if (!handle)
		return 0;
	lock_take(&shard->lock);
	entry = entry_find(shard, key);
	block = !entry ? NULL : entry->block ? entry->block : entry->deferred;
	if (block)
		name = ledger_block_name(block->state, ledger_ref(&recorder->writer, block));
	lock_give(&shard->lock);
	return name;
}

/* ---- allocation ---- */

static COLD void not_recorded(struct recorder *recorder, uint64_t bytes)
{
	ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_BLOCKS, 1);
	ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_BYTES, bytes);
}

static HOT void fill(struct recorder *recorder, struct ledger_block *block,
		     const struct ledger_row *row, const struct ledger_block *facts)
{
	/* Field by field: a copy in larger words would wait until the fields, just stored, have left
	 * the store buffer. */
	block->address = facts->address;
	block->bytes = facts->bytes;
	block->time_ns = facts->time_ns;
	block->context = facts->context;
	block->parent = facts->parent;
	block->row = ledger_ref(&recorder->writer, row);
	block->references = 1;
	block->history = 0;
	block->thread = thread_self.thread;
	block->marked = ask_marked();
	ledger_block_publish(block);
}

/* Ends STALE, which had the address of a new block. Either the driver called its own exported name
 * inside the present call: then the new record replaces it. Or an unseen call freed it. */
static COLD void settle_stale(struct recorder *recorder, struct ledger_block *stale)
{
	struct ledger_row *row = ledger_at(&recorder->writer, stale->row);

	if (LEDGER_BLOCK_STATE(stale->state) != LEDGER_BLOCK_LIVE) {
		deferred_add(recorder, -(int64_t)stale->bytes); /* a deferred free */
	} else if (thread_self.nested == stale->address) {
		__atomic_fetch_sub(&row->allocs, 1, __ATOMIC_RELAXED);
		__atomic_fetch_sub(&row->bytes, stale->bytes, __ATOMIC_RELAXED);
	} else {
		__atomic_fetch_add(&row->unseen, 1, __ATOMIC_RELAXED);
		ledger_trouble(recorder->header, LEDGER_TROUBLE_STALE_BLOCKS, 1);
	}
	block_drop(recorder, stale, (int64_t)stale->bytes);
}

/* Takes back what was counted for BLOCK, which found no place in the table. */
static COLD void drop_uninserted(struct recorder *recorder, struct ledger_block *block,
			struct ledger_row *row, uint64_t bytes)
{
	__atomic_fetch_sub(&row->allocs, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&row->bytes, bytes, __ATOMIC_RELAXED);
	block_drop(recorder, block, (int64_t)bytes);
}

/* Takes a slot and fills it with FACTS. *RET_ROW gets the call site's counters. STACK NULL: the
 * stack of the call under way. Returns NULL if the ledger has no room. */
static HOT struct ledger_block *fill_slot(struct recorder *recorder, const struct site *site,
					  const uint32_t *stack, const struct ledger_block *facts,
					  int device, struct ledger_row **ret_row)
{
	struct stripe *stripe = thread_self.stripe;
	struct ledger_block *block = NULL;
	struct ledger_row *row;

	stripe_lock(stripe);
	row = stripe_row(recorder, stripe,
			 stack ? *stack : stack_of(recorder, stripe, site->caller),
			 site->hook, device);
	if (row)
		block = stripe_take_slot(recorder, stripe);
	if (block) {
		fill(recorder, block, row, facts);
		__atomic_store_n(&row->bytes, row->bytes + facts->bytes, __ATOMIC_RELAXED);
		__atomic_store_n(&row->allocs, row->allocs + 1, __ATOMIC_RELEASE);
		stripe_live_add(recorder, stripe, (int64_t)facts->bytes, facts->time_ns);
		if (__builtin_expect(atomic_load_explicit(&limits_on, memory_order_relaxed), 0))
			limits_block_made(recorder, site->hook, device, facts->bytes);
	}
	stripe_unlock(stripe);
	*ret_row = row;
	return block;
}

static HOT struct ledger_block *insert(struct recorder *recorder, const struct site *site,
				       const struct new_block *new, const uint32_t *stack,
				       const struct ledger_block *facts, int device)
{
	struct shard *shard = shard_of(recorder, new->key);
	enum inserted inserted = INSERTED_NOWHERE;
	struct ledger_block *block, *stale = NULL;
	struct ledger_row *row;

	entry_soon(shard, standing_entry(new->standing));
	block = fill_slot(recorder, site, stack, facts, device, &row);
	if (block) {
		inserted = block_insert(recorder, shard, new, block, &stale);
		if (stale)
			settle_stale(recorder, stale);
		if (inserted == INSERTED)
			return block;
		drop_uninserted(recorder, block, row, facts->bytes);
	}
	if (inserted == INSERTED_NOWHERE)
		not_recorded(recorder, facts->bytes);
	return NULL;
}

/* Also stores the time in FACTS. */
static HOT struct ledger_block *record_hot(const struct site *site, const struct new_block *new,
					   const uint32_t *stack, struct ledger_block *facts,
					   int device)
{
	struct recorder *recorder = recorder_resume(facts->address);
	struct ledger_block *block;

	if (!recorder) {
		recorder_missed();
		return NULL;
	}
	facts->time_ns = stripes_now(recorder);
	block = insert(recorder, site, new, stack, facts, device);
	if (facts->time_ns >= atomic_load_explicit(&recorder->writer.timeline.due_ns,
						  memory_order_relaxed)) {
		ledger_add_sample(&recorder->writer, &recorder->writer.timeline, facts->time_ns,
				  (uint64_t)stripes_live(recorder));
		timeline_look(recorder, facts->time_ns);
	}
	thread_self.nested = thread_self.call_frame ? facts->address : 0;
	recorder_leave();
	return block;
}

static struct ledger_block *record_seldom(const struct site *site, const struct new_block *new,
					  const uint32_t *stack, struct ledger_block *facts,
					  int device)
{
	return record_hot(site, new, stack, facts, device);
}

struct ledger_block *record_block(const struct site *site, uint64_t number, uint64_t span,
				  const struct ledger_block *facts, int device, bool shared)
{
	const struct new_block new = {
		key_of(site, number), span, shared, site->watched, NULL,
	};
	struct ledger_block dated = *facts;

	return number ? record_seldom(site, &new, NULL, &dated, device) : NULL;
}

void record_made(const struct site *site, uint64_t address, uint64_t bytes, uint64_t context,
		 int device, uint64_t parent)
{
	const struct new_block new = {
		key_of(site, address), bytes, false, site->watched, NULL,
	};
	struct ledger_block facts = {
		.address = address, .bytes = bytes, .context = context, .parent = parent,
	};

	if (address)
		record_hot(site, &new, NULL, &facts, device);
}

HOT_CALL void record_made_pooled(const struct site *site, uint64_t address, uint64_t bytes)
{
	const struct new_block new = {
		key_in(SPACE_MEMORY, address), bytes, false, 0, thread_self.standing,
	};
	struct ledger_block facts = {
		.address = address, .bytes = bytes, .context = thread_self.owner,
	};

	record_hot(site, &new, NULL, &facts, thread_self.device);
}

uint32_t record_origin(const struct site *site)
{
	struct recorder *recorder = recorder_enter();
	uint32_t stack;

	if (!recorder)
		return 0;
	stack = origin_of(recorder, site->caller);
	recorder_leave();
	return stack;
}

void record_made_from(const struct site *site, uint32_t stack, uint64_t address, uint64_t bytes,
		      int device)
{
	const struct new_block new = { key_of(site, address), bytes, false, 0, NULL };
	struct ledger_block facts = { .address = address, .bytes = bytes };

	if (address)
		record_seldom(site, &new, &stack, &facts, device);
}

/* ---- driver calls that were left ---- */

void record_calls_end(void)
{
	struct ledger_block *block = thread_self.call_block;
	struct recorder *recorder;

	thread_self.call_frame = 0;
	thread_self.call_block = NULL;
	thread_self.nested = 0;
	slots_inside = (struct inside){ 0 };
	limits_done();
	recorder = recorder_now();
	if (!block || !recorder || thread_self.generation != recorder->generation ||
	    !(recorder = recorder_enter()))
		return;
	block_undo_left_free(recorder, thread_self.call_key, block);
	recorder_leave();
}

void record_call_left(const uintptr_t *frame)
{
	const uintptr_t *at = (const uintptr_t *)thread_self.call_frame + CALL_RETURN_WORD;
	int saved = errno;

	if (recorder_was_left(thread_self.call_frame, (uintptr_t)frame) ||
	    !unwinder_can_read(at) || *at != thread_self.call_return)
		record_calls_end();
	errno = saved;
}
