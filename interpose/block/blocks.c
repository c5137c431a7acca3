/* SPDX-License-Identifier: MIT
 *
 * Records allocations, answers what is live at an address, and settles driver calls that were left
 * by a jump. Frees are in free.c. Must not call the driver, and holds no lock while it unwinds or
 * writes stacks, except the thread's own.
 */
#include "interpose/block/block_state.h"

#include "interpose/block/block_ranges.h"
#include "interpose/block/blocks.h"
#include "interpose/block/driver_call.h"
#include "interpose/recorder/ipc.h"
#include "interpose/recorder/live_counts.h"
#include "interpose/recorder/trace.h"
#include "interpose/block/steps.h"
#include "interpose/dispatch/inside.h"
#include "interpose/stack/unwinder.h"

/* ---- queries ---- */

uint64_t block_live_name(struct recorder *recorder, uint64_t key, struct ledger_block *ret)
{
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;

	HOLD(&shard->lock);
	entry = entry_find(shard, key);
	if (!entry || !entry->block)
		return 0;
	entry_tell(entry, ret);
	return ledger_block_name(ret->state, ledger_ref(&recorder->writer, entry->block));
}

bool block_live(struct recorder *recorder, uint64_t key, struct ledger_block *ret)
{
	return block_live_name(recorder, key, ret) != 0;
}

bool record_is_live(const struct call *call, uint64_t address)
{
	LEAVE_AT_END struct recorder *recorder = recorder_enter();
	struct ledger_block block;

	return recorder && block_live(recorder, key_of(call, address), &block);
}

int record_device_of(uint64_t address)
{
	LEAVE_AT_END struct recorder *recorder = recorder_enter();
	const struct ledger_site *site;
	struct ledger_block block;

	if (!recorder || !block_live(recorder, key_in(SPACE_MEMORY, address), &block))
		return -1;
	site = ledger_at(&recorder->writer, block.site);
	return site->device;
}

uint64_t record_use(struct recorder *recorder, enum space space, uint64_t handle,
		    uint64_t *ret_watch)
{
	uint64_t key = key_in(space, handle);
	struct shard *shard = shard_of(recorder, key);
	const struct ledger_block *block;
	struct entry *entry;

	if (!handle)
		return 0;
	HOLD(&shard->lock);
	entry = entry_find(shard, key);
	block = !entry ? NULL : entry->block ? entry->block : entry->deferred;
	if (ret_watch && entry && entry->block && entry->watched & WATCHED_LATER)
		*ret_watch = entry->watched &= ~WATCHED_LATER;
	return block ? ledger_block_name(block->state, ledger_ref(&recorder->writer, block)) : 0;
}

void record_unwatched(enum space space, uint64_t handle, uint64_t watched)
{
	struct recorder *recorder = recorder_enter();

	if (!recorder)
		return;
	block_set_watched(recorder, key_in(space, handle), watched, 0);
	recorder_leave();
}

/* ---- allocation ---- */

static COLD void not_recorded(struct recorder *recorder, uint64_t bytes)
{
	ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_BLOCKS, 1);
	ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_BYTES, bytes);
}

/* Ends STALE, which had the key of CALL's new block. Either the driver called one of its exported
 * functions inside the present call, and that wrapper recorded the same memory: then the new record
 * replaces STALE. Or a call that gpuleak did not see freed STALE. */
static void settle_stale(struct recorder *recorder, const struct call *call,
			 struct ledger_block *stale)
{
	struct ledger_site *site = ledger_at(&recorder->writer, stale->site);

	if (LEDGER_BLOCK_STATE(stale->state) != LEDGER_BLOCK_LIVE) {
		deferred_add(-(int64_t)stale->bytes); /* STALE is a deferred free */
	} else if (thread_self.nested == stale->address) {
		atomic_fetch_sub_explicit(&SHARED(site->allocs), 1, memory_order_relaxed);
		atomic_fetch_sub_explicit(&SHARED(site->bytes), stale->bytes, memory_order_relaxed);
	} else {
		shared_add(site->unseen, 1);
		if (call->space < SPACE_OBJECT) /* no memory is missing in the report */
			ledger_trouble(recorder->header, LEDGER_TROUBLE_STALE_BLOCKS, 1);
	}
	ipc_look_at_end(recorder, stale, 0, 0);
	block_drop(recorder, stale, (int64_t)stale->bytes);
}

/* Takes back what was counted for BLOCK, which found no place in the table. */
static void drop_uninserted(struct recorder *recorder, struct ledger_block *block)
{
	struct ledger_site *site = ledger_at(&recorder->writer, block->site);

	atomic_fetch_sub_explicit(&SHARED(site->allocs), 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&SHARED(site->bytes), block->bytes, memory_order_relaxed);
	block_drop(recorder, block, (int64_t)block->bytes);
}

static COLD void add_sample(struct recorder *recorder, uint64_t now_ns)
{
	ledger_add_sample(&recorder->writer, &recorder->writer.timeline, now_ns,
			  (uint64_t)live_bytes_total(recorder));
	timeline_look(recorder, now_ns);
}

/* Locking: the caller holds STATE's lock. Does what `alloc_checks` requests for a new block of
 * SITE: compares it with a refused request, and adds it to what GPULEAK_LIMIT counts, to the live
 * blocks that SITE counts, to the ranges and to the trace. Gets no pointer to the struct new_block,
 * so that the compiler can keep that struct in registers. */
static COLD void check_made(struct recorder *recorder, struct thread_state *state,
			    const struct hook *hook, const struct ledger_site *site, int device,
			    const struct ledger_block *block, uint64_t key, uint64_t span)
{
	unsigned int space = key_space(key, block->address);

	if (alloc_checks & CHECK_RANGES && space < SPACE_OBJECT && spaces[space].contains)
		ranges_add(recorder, key, block->address, span);
	if (trace_is_on())
		trace_block(recorder, LEDGER_TRACE_ALLOCATED, block, block->bytes, block->time_ns);
	if (alloc_checks & (CHECK_LIMITS | CHECK_REFUSED))
		limits_block_made(recorder, hook, device, block->bytes);
	if (site->series && !live_counts_physical(site))
		live_counts_add(recorder, state, site, block->bytes);
}

/* Takes a slot and fills it with NEW. Returns NULL if the ledger has no room. */
static HOT struct ledger_block *fill_slot(struct recorder *recorder, const struct call *call,
					  const struct new_block *new)
{
	struct thread_state *state = thread_self.state;
	struct ledger_block *block = NULL;
	struct ledger_site *site;

	thread_state_lock(state);
	site = site_lookup(recorder, state, new->stack, call->hook, new->device);
	if (site)
		block = slot_allocate(recorder, state);
	if (block) {
		block_fill(recorder, block, site, new);
		live_bytes_add(recorder, state, site, (int64_t)new->bytes, new->time_ns);
		if (__builtin_expect(thread_self.ignored, 0))
			live_bytes_rehide(recorder, block, (int64_t)new->bytes, LEDGER_HIDDEN_NOT,
					  LEDGER_HIDDEN_IGNORED);
		if (__builtin_expect(atomic_load_explicit(&alloc_checks, memory_order_relaxed), 0))
			check_made(recorder, state, call->hook, site, new->device, block, new->key,
				   new->span);
	}
	thread_state_unlock(state);
	return block;
}

/* Ends STALE, if not NULL: it had the key of BLOCK, which is new. Returns BLOCK if it is in the
 * table. Otherwise takes back what was counted for BLOCK and returns NULL. */
static COLD struct ledger_block *settle(struct recorder *recorder, const struct call *call,
					struct ledger_block *block, struct ledger_block *stale,
					enum inserted inserted)
{
	if (stale)
		settle_stale(recorder, call, stale);
	if (inserted == INSERTED)
		return block;
	if (inserted == INSERTED_NOWHERE)
		not_recorded(recorder, block->bytes);
	drop_uninserted(recorder, block);
	return NULL;
}

/* Records NEW for CALL, which may be inside the recorder, and leaves the recorder. NUMBER is the
 * block's address or handle. STACK NULL: the stack of the call. */
static HOT struct ledger_block *record_new(struct call *call, struct new_block *new,
					   uint64_t number, const uint32_t *stack)
{
	struct recorder *recorder = call->inside ? call->inside : call_begin(call);
	struct ledger_block *block, *stale;
	enum inserted inserted;
	struct shard *shard;

	if (__builtin_expect(!recorder, 0)) {
		recorder_missed();
		return NULL;
	}
	new->key = key_of(call, number);
	shard = shard_soon(recorder, new->key, hint_entry(new->hint));
	new->time_ns = call->now_ns;
	new->stack = stack ? *stack : stack_here(recorder, call->caller);
	block = fill_slot(recorder, call, new);
	if (__builtin_expect(!block, 0)) {
		not_recorded(recorder, new->bytes);
	} else {
		inserted = block_insert(recorder, shard, new, block, &stale);
		if (__builtin_expect(stale || inserted != INSERTED, 0))
			block = settle(recorder, call, block, stale, inserted);
	}
	if (new->time_ns >= atomic_load_explicit(&recorder->writer.timeline.due_ns,
						 memory_order_relaxed))
		add_sample(recorder, new->time_ns);
	thread_self.nested = thread_self.call_frame ? new->address : 0;
	call_leave(call);
	return block;
}

struct ledger_block *record_block(struct call *call, const struct made *made)
{
	struct new_block new = {
		.span = made->span, .shared = made->shared, .watched = call->watched,
		.address = made->address, .bytes = made->bytes, .device = made->device,
		.parent = made->parent, .context = made->context,
	};

	return made->number ? record_new(call, &new, made->number, NULL) : NULL;
}

void record_made(struct call *call, uint64_t address, uint64_t bytes, uint64_t context, int device,
		 uint64_t parent)
{
	struct new_block new = {
		.span = bytes, .watched = call->watched, .address = address, .bytes = bytes,
		.context = context, .parent = parent, .device = device,
	};

	if (address)
		record_new(call, &new, address, NULL);
}

HOT_CALL void record_made_pooled(struct call *call, uint64_t address, uint64_t bytes,
				 uint64_t context, int device)
{
	struct new_block new = {
		.span = bytes, .hint = call->hint, .address = address, .bytes = bytes,
		.context = context, .device = device,
	};

	record_new(call, &new, address, NULL);
}

uint32_t record_origin(const struct call *call)
{
	LEAVE_AT_END struct recorder *recorder = recorder_enter();

	return recorder ? stack_here(recorder, call->caller) : 0;
}

void record_made_from(struct call *call, uint32_t stack, uint64_t address, uint64_t bytes,
		      int device)
{
	struct new_block new = {
		.span = bytes, .address = address, .bytes = bytes, .device = device,
	};

	if (address)
		record_new(call, &new, address, &stack);
}

/* ---- driver calls that were left ---- */

void record_calls_end(void)
{
	const struct call_free left = thread_self.call_free;
	struct recorder *recorder;

	thread_self.call_frame = 0;
	thread_self.call_free.block = NULL;
	thread_self.nested = 0;
	thread_inside = (struct inside){ 0 };
	limits_done();
	recorder = recorder_now();
	if (!left.block || !recorder || thread_self.generation != recorder->generation ||
	    !(recorder = recorder_enter()))
		return;
	block_undo_left_free(recorder, &left);
	recorder_leave();
}

void record_call_left(const uintptr_t *frame)
{
	const uintptr_t *at = (const uintptr_t *)thread_self.call_frame + CALL_RETURN_WORD;
	KEEP_ERRNO;

	if (recorder_was_left(thread_self.call_frame, (uintptr_t)frame) ||
	    !unwinder_can_read(at) || *at != thread_self.call_return)
		record_calls_end();
}
