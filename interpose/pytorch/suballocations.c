/* SPDX-License-Identifier: MIT
 *
 * Owns the table of suballocations and their slots in the ledger. An address keeps its slot when it
 * is freed, because a framework's cache gives the same addresses again. Contradictions are counted
 * and are never errors of the application: a free of an unknown address, and an allocation at an
 * address that was not freed.
 *
 * Locking: a shard's lock is held for table work only.
 */
#include "interpose/pytorch/suballocations.h"

#include "interpose/block/block_state_hot.h"
#include "interpose/recorder/live_bytes.h"
#include "interpose/recorder/live_counts.h"
#include "interpose/stack/stacks.h"

#define SLOTS_AT_ONCE 8u

static struct suballocation_shard *shard_at(struct recorder *recorder, uint64_t address)
{
	return &recorder->suballocations->shard[TABLE_MIX(address) >> 59];
}
_Static_assert(SUBALLOCATION_SHARDS == 32, "shard_at takes five bits");

/* ---- blocks; the caller holds the shard's lock ---- */

static bool is_live(const struct ledger_block *block)
{
	return LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_LIVE;
}

/* Returns the block that is at ADDRESS, or that was freed there last, or NULL. */
static struct ledger_block *block_at(struct recorder *recorder,
				     const struct suballocation_shard *shard, uint64_t address)
{
	uint32_t ref = ref_table_find(&shard->blocks, address);

	return ref ? ledger_at(&recorder->writer, ref) : NULL;
}

static void give_slot(struct recorder *recorder, struct suballocation_shard *shard, uint32_t ref)
{
	struct ledger_block *block = ledger_at(&recorder->writer, ref);

	block->next_spare = shard->slot;
	shard->slot = ref;
}

/* Locking: releases SHARD's lock meanwhile, because the ledger may have to grow. */
static COLD void add_slots(struct recorder *recorder, struct suballocation_shard *shard)
{
	struct ledger_block *first;
	unsigned int count;

	lock_give(&shard->lock);
	count = ledger_add_suballocations(&recorder->writer, SLOTS_AT_ONCE, &first);
	lock_take(&shard->lock);
	while (count--)
		give_slot(recorder, shard, ledger_ref(&recorder->writer, &first[count]));
}

/* Copies what is live in SHARD's table to RET, which is empty. Returns false without memory. */
static bool copy_live(struct recorder *recorder, const struct suballocation_shard *shard,
		      struct ref_table *ret)
{
	const struct ref_table *from = &shard->blocks;

	for (uint32_t i = 0; i < from->size; i++) {
		const struct ref_slot *slot = &from->slots[i];

		if (slot->ref && is_live(ledger_at(&recorder->writer, slot->ref)) &&
		    !ref_table_set(&recorder->arena, ret, slot->key, slot->ref))
			return false;
	}
	return true;
}

/* Removes the addresses where nothing is live, if they are most of SHARD's table. Called before the
 * table would grow: so its size depends on what is live at a time, not on the addresses used. */
static COLD void forget_freed(struct recorder *recorder, struct suballocation_shard *shard)
{
	struct ref_table live = { 0 }, *old = &shard->blocks;

	if (!copy_live(recorder, shard, &live) || live.used > old->used / 2) {
		ref_table_finish(&recorder->arena, &live);
		return;
	}
	/* see slot_return() */
	atomic_thread_fence(memory_order_release);
	for (uint32_t i = 0; i < old->size; i++) {
		uint32_t ref = old->slots[i].ref;

		if (ref && !is_live(ledger_at(&recorder->writer, ref)))
			give_slot(recorder, shard, ref);
	}
	ref_table_finish(&recorder->arena, old);
	*old = live;
}

/* Gives ADDRESS, which is not in SHARD's table, an unused slot. Returns NULL without room. */
static struct ledger_block *add_address(struct recorder *recorder,
					struct suballocation_shard *shard, uint64_t address)
{
	struct ledger_block *block;
	uint32_t ref;

	if (ref_table_is_full(&shard->blocks))
		forget_freed(recorder, shard);
	ref = shard->slot;
	if (!ref)
		return NULL;
	block = ledger_at(&recorder->writer, ref);
	if (!ref_table_set(&recorder->arena, &shard->blocks, address, ref))
		return NULL;
	shard->slot = block->next_spare;
	return block;
}

/* ---- what a framework reports ---- */

/* Locking: the caller holds STATE's lock. Counts a new suballocation of BYTES at SITE. If the
 * device has as many live bytes as at its peak, and more of them are suballocations now, the peak
 * is recorded again. */
static void live_add(struct recorder *recorder, struct thread_state *state,
		     struct ledger_site *site, uint64_t bytes, uint64_t now_ns)
{
	struct memory_part *part = balance_change(state, site, (int64_t)bytes, 1);
	int64_t now = atomic_load_explicit(&part->suballocated, memory_order_relaxed) +
		      (int64_t)bytes;

	live_counts_add(recorder, state, site, bytes);
	atomic_store_explicit(&part->suballocated, now, memory_order_relaxed);
	if (now > atomic_load_explicit(&part->suballocated_ceiling, memory_order_relaxed))
		live_bytes_check_peak(recorder, state, balance_of(site)->memory, now_ns);
}

/* Locking: the caller holds STATE's lock. Counts that BLOCK, which is still live, ends. */
static void live_remove(struct recorder *recorder, struct thread_state *state,
			const struct ledger_block *block)
{
	struct ledger_live_series *series = live_counts_of_ending(recorder, block);
	struct memory_part *part = balance_change(state, ledger_at(&recorder->writer, block->site),
						  -(int64_t)block->bytes, -1);

	atomic_store_explicit(&part->suballocated,
			      atomic_load_explicit(&part->suballocated, memory_order_relaxed) -
				      (int64_t)block->bytes,
			      memory_order_relaxed);
	if (series)
		live_series_remove(series, live_amount(block->bytes));
}

/* Enters the recorder if there is one. */
static struct recorder *enter(struct call *call)
{
	struct recorder *recorder = recorder_now() ? call_enter(call) : NULL;

	if (!recorder)
		recorder_missed();
	return recorder;
}

/* Locking: the caller holds the lock of the thread's state. Ends BLOCK, at whose address the
 * framework reported another allocation. */
static COLD void end_stale(struct recorder *recorder, struct ledger_block *block)
{
	count_in_site(recorder, block->site, offsetof(struct ledger_site, unseen), 1);
	ledger_trouble(recorder->header, LEDGER_TROUBLE_STALE_SUBALLOCATIONS, 1);
	live_remove(recorder, thread_self.state, block);
	ledger_block_set(block, LEDGER_BLOCK_UNUSED);
}

/* Locking: the caller holds SHARD's lock. Returns false if there is no room. */
static bool insert(struct recorder *recorder, struct suballocation_shard *shard,
		   struct ledger_site *site, const struct new_block *new)
{
	struct ledger_block *block = block_at(recorder, shard, new->address);

	if (!block && !shard->slot) {
		add_slots(recorder, shard);
		block = block_at(recorder, shard, new->address);
	}
	if (!block)
		block = add_address(recorder, shard, new->address);
	else if (__builtin_expect(is_live(block), 0))
		end_stale(recorder, block);
	if (block)
		block_fill(recorder, block, site, new);
	return block != NULL;
}

void record_suballocated(struct call *call, const char *api, uint64_t address, uint64_t bytes,
			 int device)
{
	struct new_block new = { .address = address, .bytes = bytes, .device = device };
	struct recorder *recorder = enter(call);
	struct suballocation_shard *shard;
	struct thread_state *state;
	struct ledger_site *site;
	bool inserted = false;

	if (!recorder)
		return;
	/* the first call writes the name for all blocks of the hook */
	call->name = recorder_text_ref(recorder, &call->hook->name_ref, api);
	new.time_ns = recorder_time(recorder);
	shard = shard_at(recorder, address);
	SOON_WRITTEN(shard);
	new.stack = stack_here_without_loader(recorder, call->caller);
	state = thread_self.state;
	thread_state_lock(state);
	site = site_lookup(recorder, state, new.stack, call->hook, device);
	if (site) {
		lock_take(&shard->lock);
		inserted = insert(recorder, shard, site, &new);
		lock_give(&shard->lock);
	}
	if (inserted)
		live_add(recorder, state, site, bytes, new.time_ns);
	thread_state_unlock(state);
	if (!inserted)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_SUBALLOCATIONS, 1);
	call_leave(call);
}

void record_suballocation_freed(struct call *call, uint64_t address)
{
	struct recorder *recorder = enter(call);
	struct suballocation_shard *shard;
	struct ledger_block *block;
	bool known;

	if (!recorder)
		return;
	shard = shard_at(recorder, address);
	SOON_WRITTEN(shard);
	thread_state_lock(thread_self.state);
	lock_take(&shard->lock);
	block = block_at(recorder, shard, address);
	known = block && is_live(block);
	if (known) {
		live_remove(recorder, thread_self.state, block);
		ledger_block_set(block, LEDGER_BLOCK_UNUSED);
	}
	lock_give(&shard->lock);
	thread_state_unlock(thread_self.state);
	if (!known)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNKNOWN_SUBALLOCATION_FREES, 1);
	call_leave(call);
}
