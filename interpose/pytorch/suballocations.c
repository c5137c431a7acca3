/* SPDX-License-Identifier: MIT
 *
 * Owns the table of suballocations and their slots in the ledger. A live suballocation has an entry
 * and a slot; both are reused. Contradictions are counted and are never errors of the application:
 * a free of an unknown address, and an allocation at an address that was not freed.
 *
 * Locking: a shard's lock is held for table work only.
 */
#include "interpose/pytorch/suballocations.h"

#include "interpose/block/block_state_hot.h"
#include "interpose/recorder/live_bytes.h"
#include "interpose/recorder/live_counts.h"
#include "interpose/stack/stacks.h"

#define SLOTS_AT_ONCE 8u
#define SLAB_BYTES 4096u

struct suballocation {
	uint64_t address;
	struct ledger_block *block; /* NULL: it was freed */
	struct suballocation *next_spare;
	UT_hash_handle hh;
};

static struct suballocation_shard *shard_at(struct recorder *recorder, uint64_t address)
{
	return &recorder->suballocations->shard[TABLE_MIX(address) >> 57];
}
_Static_assert(SUBALLOCATION_SHARDS == 128, "shard_at takes seven bits");

/* ---- slots and entries; the caller holds the shard's lock ---- */

static void return_slot(struct recorder *recorder, struct suballocation_shard *shard,
			struct ledger_block *block)
{
	ledger_block_set(block, LEDGER_BLOCK_UNUSED);
	/* see slot_return() */
	atomic_thread_fence(memory_order_release);
	block->next_spare = shard->slot;
	shard->slot = ledger_ref(&recorder->writer, block);
}

/* Locking: releases SHARD's lock meanwhile, because the ledger may have to grow. */
static COLD void add_slots(struct recorder *recorder, struct suballocation_shard *shard)
{
	struct ledger_block *first;
	unsigned int count;

	lock_give(&shard->lock);
	count = ledger_add_suballocations(&recorder->writer, SLOTS_AT_ONCE, &first);
	lock_take(&shard->lock);
	while (count--) {
		first[count].next_spare = shard->slot;
		shard->slot = ledger_ref(&recorder->writer, &first[count]);
	}
}

/* Returns an unused slot, or NULL if the ledger has no room. */
static struct ledger_block *take_slot(struct recorder *recorder, struct suballocation_shard *shard)
{
	struct ledger_block *block;

	if (!shard->slot)
		add_slots(recorder, shard);
	if (!shard->slot)
		return NULL;
	block = ledger_at(&recorder->writer, shard->slot);
	shard->slot = block->next_spare;
	return block;
}

static void return_entry(struct suballocation_shard *shard, struct suballocation *entry)
{
	entry->next_spare = shard->spare;
	shard->spare = entry;
}

static COLD void add_entries(struct arena *arena, struct suballocation_shard *shard)
{
	struct suballocation *slab = arena_take(arena, SLAB_BYTES);

	for (size_t i = 0; slab && i < SLAB_BYTES / sizeof(*slab); i++)
		return_entry(shard, &slab[i]);
}

/* Adds an entry for ADDRESS to SHARD's table. The table must not have an entry for ADDRESS. Returns
 * the new entry, which has no block yet, or NULL if there is no memory. */
static struct suballocation *add_entry(struct arena *arena, struct suballocation_shard *shard,
				       uint64_t address)
{
	struct suballocation *entry;

	if (!shard->spare)
		add_entries(arena, shard);
	entry = shard->spare;
	if (!entry)
		return NULL;
	shard->spare = entry->next_spare;
	entry->address = address;
	entry->block = NULL;
	TABLE_ADD(shard->table, address, entry);
	if (entry->hh.tbl)
		return entry;
	return_entry(shard, entry); /* no memory */
	return NULL;
}

/* Clears the block of ENTRY, which the framework freed. ENTRY stays in the table until the next
 * entry of SHARD is freed. So this function removes the entry that was freed before ENTRY. */
static void retire_entry(struct arena *arena, struct suballocation_shard *shard,
			 struct suballocation *entry)
{
	struct suballocation *former = shard->freed;

	entry->block = NULL;
	shard->freed = entry;
	if (!former)
		return;
	HASH_DEL(shard->table, former);
	return_entry(shard, former);
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

/* Locking: the caller holds STATE's lock. Counts that BLOCK, which is still in its slot, ends. */
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

/* Locking: the caller holds the lock of the thread's state. Ends the block of ENTRY, at whose
 * address the framework reported another allocation. */
static COLD void end_stale(struct recorder *recorder, struct suballocation_shard *shard,
			   struct suballocation *entry)
{
	count_in_site(recorder, entry->block->site, offsetof(struct ledger_site, unseen), 1);
	ledger_trouble(recorder->header, LEDGER_TROUBLE_STALE_SUBALLOCATIONS, 1);
	live_remove(recorder, thread_self.state, entry->block);
	return_slot(recorder, shard, entry->block);
	retire_entry(&recorder->arena, shard, entry);
}

/* Locking: the caller holds SHARD's lock. Returns the entry for a new block at ADDRESS, or NULL if
 * there is no memory. */
static struct suballocation *entry_for_new(struct recorder *recorder,
					   struct suballocation_shard *shard, uint64_t address)
{
	struct suballocation *entry;

	TABLE_FIND(shard->table, &address, entry);
	if (!entry)
		return add_entry(&recorder->arena, shard, address);
	if (__builtin_expect(entry->block != NULL, 0))
		end_stale(recorder, shard, entry);
	shard->freed = NULL; /* it is ENTRY */
	return entry;
}

/* Locking: the caller holds SHARD's lock. Returns false if there is no room. */
static bool insert(struct recorder *recorder, struct suballocation_shard *shard,
		   struct ledger_site *site, const struct new_block *new)
{
	struct ledger_block *block = take_slot(recorder, shard);
	struct suballocation *entry = block ? entry_for_new(recorder, shard, new->address) : NULL;

	if (entry) {
		block_fill(recorder, block, site, new);
		entry->block = block;
	} else if (block) {
		return_slot(recorder, shard, block);
	}
	return entry != NULL;
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
	struct suballocation *entry;
	bool known;

	if (!recorder)
		return;
	shard = shard_at(recorder, address);
	thread_state_lock(thread_self.state);
	lock_take(&shard->lock);
	TABLE_FIND(shard->table, &address, entry);
	known = entry && entry->block;
	if (known) {
		live_remove(recorder, thread_self.state, entry->block);
		return_slot(recorder, shard, entry->block);
		retire_entry(&recorder->arena, shard, entry);
	}
	lock_give(&shard->lock);
	thread_state_unlock(thread_self.state);
	if (!known)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNKNOWN_SUBALLOCATION_FREES, 1);
	call_leave(call);
}
