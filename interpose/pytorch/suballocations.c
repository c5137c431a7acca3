/* SPDX-License-Identifier: MIT
 *
 * Owns the table of suballocations and their slots in the ledger. An address keeps its slot when it
 * is freed, because a framework's cache gives the same addresses again. Contradictions are counted
 * and are never errors of the application: a free of an unknown address, and an allocation at an
 * address that was not freed.
 *
 * Each device has a shard: a table of addresses and its lock. The lock is held while the table, a
 * block, or the counts of a call site change. Frameworks report the memory of one device under a
 * lock of their own, so threads rarely wait for this one.
 */
#include "interpose/pytorch/suballocations.h"

#include "interpose/block/block_state.h"
#include "interpose/recorder/live_counts.h"
#include "interpose/recorder/trace.h"

#define SLOTS_AT_ONCE 8u
#define SMALL_TABLE 4096u /* a table with fewer slots grows instead of forgetting addresses */

/* `mark` of an address in the table. A live suballocation's `mark` is the ref of its call site, as
 * in its block. So the processor reads the block and the call site at the same time in a free. */
#define FREED 0u

static struct suballocation_shard *device_shard(struct recorder *recorder, enum suballocator by,
						int device)
{
	return &recorder->suballocations->shard[by][(unsigned int)device % SUBALLOCATION_SHARDS];
}

/* ---- the table; the caller holds the shard's lock ---- */

static struct ledger_block *block_of(struct recorder *recorder, const struct ref_slot *slot)
{
	return ledger_at(&recorder->writer, slot->ref);
}

static COLD void trace_slot(struct recorder *recorder, enum ledger_trace_kind kind,
			    const struct ref_slot *slot)
{
	const struct ledger_block *block = block_of(recorder, slot);

	trace_block(recorder, kind, block, block->bytes, recorder_time(recorder));
}

static void give_slot(struct recorder *recorder, struct suballocation_shard *shard, uint32_t ref)
{
	struct ledger_block *block = ledger_at(&recorder->writer, ref);

	block->next_spare = shard->spare;
	shard->spare = ref;
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
		struct ref_slot *copy;

		if (slot->mark == FREED)
			continue;
		copy = ref_table_set(&recorder->arena, ret, slot->key, slot->ref);
		if (!copy)
			return false;
		copy->mark = slot->mark;
	}
	return true;
}

/* Removes the addresses where nothing is live, if they are most of SHARD's table. Called before a
 * large table would grow: so its size depends on what is live at a time, not on the addresses
 * used. */
static COLD void forget_freed(struct recorder *recorder, struct suballocation_shard *shard)
{
	struct ref_table live = { 0 }, *old = &shard->blocks;

	if (!copy_live(recorder, shard, &live) || live.used > old->used / 2) {
		ref_table_finish(&recorder->arena, &live);
		return;
	}
	/* see slot_return() */
	atomic_thread_fence(memory_order_release);
	for (uint32_t i = 0; i < old->size; i++)
		if (old->slots[i].ref && old->slots[i].mark == FREED)
			give_slot(recorder, shard, old->slots[i].ref);
	ref_table_finish(&recorder->arena, old);
	*old = live;
}

/* Gives ADDRESS, which is not in SHARD's table, an unused slot of the ledger. Returns its slot of
 * the table, or NULL without room. */
static struct ref_slot *add_address(struct recorder *recorder, struct suballocation_shard *shard,
				    uint64_t address)
{
	struct ref_slot *ret;

	if (ref_table_is_full(&shard->blocks) && shard->blocks.size >= SMALL_TABLE)
		forget_freed(recorder, shard);
	if (!shard->spare)
		return NULL;
	ret = ref_table_set(&recorder->arena, &shard->blocks, address, shard->spare);
	if (ret)
		shard->spare = block_of(recorder, ret)->next_spare;
	return ret;
}

/* ---- what a framework reports ---- */

/* Locking: the caller holds the lock of the shard of SITE's device. Adds BYTES and BLOCKS to what
 * SITE and its memory have live; both may be negative. Returns the number of the memory if its
 * peak must be checked, else 0. Several threads change the balance of SITE's own thread here, one
 * after the other. */
static HOT uint32_t change_live(struct recorder *recorder, struct ledger_site *site, int64_t bytes,
				int32_t blocks)
{
	struct ledger_balance *balance = balance_of(site);
	struct memory_suballocations *memory =
		&recorder->thread_states->suballocations[balance->memory];
	int64_t live = atomic_load_explicit(&memory->live, memory_order_relaxed) + bytes;

	balance_add(balance, atomic_load_explicit(&memory->peak, memory_order_relaxed), bytes,
		    blocks);
	atomic_store_explicit(&memory->live, live, memory_order_relaxed);
	range_change(recorder, balance, LEDGER_RANGE_SUBALLOCATIONS, bytes);
	return live > atomic_load_explicit(&memory->ceiling, memory_order_relaxed)
		       ? balance->memory
		       : 0;
}

/* Locking: as change_live(), and STATE's. Counts a new suballocation of BYTES at SITE. If the
 * device's blocks have as many bytes as at the recorded peak, but more of these bytes are in
 * suballocations, records the peak again. */
static HOT void live_add(struct recorder *recorder, struct thread_state *state,
		     struct ledger_site *site, uint64_t bytes, uint64_t now_ns)
{
	uint32_t memory = change_live(recorder, site, (int64_t)bytes, 1);

	live_counts_add(recorder, state, site, bytes);
	if (__builtin_expect(memory != 0, 0))
		live_bytes_check_peak(recorder, state, memory, now_ns);
}

/* Locking: as change_live(). Subtracts the live block of SLOT from what its call site has live. */
static HOT void live_remove(struct recorder *recorder, const struct ref_slot *slot)
{
	const struct ledger_block *block = block_of(recorder, slot);
	struct ledger_site *site = ledger_at(&recorder->writer, slot->mark);
	struct ledger_live_series *series = live_counts_of_ending(recorder, site);

	change_live(recorder, site, -(int64_t)block->bytes, -1);
	if (trace_is_on())
		trace_slot(recorder, LEDGER_TRACE_FREED, slot);
	if (series)
		live_series_remove(series, live_amount(block->bytes));
}

/* Enters the recorder if there is one. */
static HOT struct recorder *enter(void)
{
	struct recorder *recorder = recorder_now() ? recorder_enter() : NULL;

	if (__builtin_expect(!recorder, 0))
		recorder_missed();
	return recorder;
}

/* Locking: as change_live(). Ends the live block of SLOT, because the framework reported another
 * allocation at the same address. */
static COLD void end_stale(struct recorder *recorder, const struct ref_slot *slot)
{
	count_in_site(recorder, slot->mark, offsetof(struct ledger_site, unseen), 1);
	ledger_trouble(recorder->header, LEDGER_TROUBLE_STALE_SUBALLOCATIONS, 1);
	live_remove(recorder, slot);
	ledger_block_set(block_of(recorder, slot), LEDGER_BLOCK_UNUSED);
}

/* Locking: as change_live(). Returns false if there is no room. */
static HOT bool insert(struct recorder *recorder, struct suballocation_shard *shard,
		   struct ledger_site *site, const struct new_block *new)
{
	struct ref_slot *slot = ref_table_slot_of(&shard->blocks, new->address);

	if (__builtin_expect(!slot && !shard->spare, 0)) {
		add_slots(recorder, shard);
		slot = ref_table_slot_of(&shard->blocks, new->address);
	}
	if (__builtin_expect(!slot, 0))
		slot = add_address(recorder, shard, new->address);
	else if (__builtin_expect(slot->mark != FREED, 0))
		end_stale(recorder, slot);
	if (__builtin_expect(!slot, 0))
		return false;
	slot->mark = ledger_ref(&recorder->writer, site);
	block_fill(recorder, block_of(recorder, slot), site, new);
	live_add(recorder, thread_self.state, site, new->bytes, new->time_ns);
	if (trace_is_on())
		trace_slot(recorder, LEDGER_TRACE_ALLOCATED, slot);
	return true;
}

/* These two are inlined for each suballocator, so that a tensor calls no function for them. */
static HOT void record_new(enum suballocator by, struct call *call, const char *api,
			   uint64_t address, uint64_t bytes, int device)
{
	struct new_block new = { .address = address, .bytes = bytes, .device = device };
	struct recorder *recorder = enter();
	struct suballocation_shard *shard;
	struct thread_state *state;
	struct ledger_site *site;
	bool inserted = false;

	if (!recorder)
		return;
	/* the first call writes the name for all blocks of the hook */
	call->name = recorder_text_ref(recorder, &call->hook->name_ref, api);
	new.time_ns = recorder_time(recorder);
	shard = device_shard(recorder, by, device);
	SOON_WRITTEN(shard);
	new.stack = stack_here_without_loader(recorder, call->caller);
	state = thread_self.state;
	thread_state_lock(state);
	site = site_lookup(recorder, state, new.stack, call->hook, device);
	if (site) {
		lock_take(&shard->lock);
		inserted = insert(recorder, shard, site, &new);
		lock_give_soon(&shard->lock);
	}
	thread_state_unlock(state);
	if (!inserted)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_SUBALLOCATIONS, 1);
	recorder_leave();
}

/* Locking: as change_live(). */
static HOT void end(struct recorder *recorder, struct ref_slot *slot)
{
	live_remove(recorder, slot);
	ledger_block_set(block_of(recorder, slot), LEDGER_BLOCK_UNUSED);
	slot->mark = FREED;
}

static HOT bool record_free(enum suballocator by, uint64_t address, int device)
{
	struct recorder *recorder = enter();
	struct suballocation_shard *shard;
	struct ref_slot *slot;
	bool known;

	if (!recorder)
		return true;
	shard = device_shard(recorder, by, device);
	lock_take(&shard->lock);
	slot = ref_table_slot_of(&shard->blocks, address);
	known = slot && slot->mark != FREED;
	if (known)
		end(recorder, slot);
	lock_give_soon(&shard->lock);
	recorder_leave();
	return known;
}

HOT_CALL void record_suballocated(struct call *call, const char *api, uint64_t address,
				  uint64_t bytes, int device)
{
	record_new(SUBALLOCATOR_PYTORCH, call, api, address, bytes, device);
}

HOT_CALL bool record_suballocation_freed(uint64_t address, int device)
{
	return record_free(SUBALLOCATOR_PYTORCH, address, device);
}

void record_region(struct call *call, uint64_t address, uint64_t bytes, int device)
{
	record_new(SUBALLOCATOR_NVTX, call, call->hook->name, address, bytes, device);
}

bool record_region_freed(uint64_t address, int device)
{
	return record_free(SUBALLOCATOR_NVTX, address, device);
}

void suballocations_end(struct recorder *recorder, enum suballocator by, uint64_t start,
			uint64_t bytes, int device)
{
	struct suballocation_shard *shard = device_shard(recorder, by, device);

	HOLD(&shard->lock);
	for (uint32_t i = 0; i < shard->blocks.size; i++) {
		struct ref_slot *slot = &shard->blocks.slots[i];

		if (slot->ref && slot->mark != FREED && slot->key - start < bytes)
			end(recorder, slot);
	}
}

bool suballocation_set_name(struct recorder *recorder, enum suballocator by, uint64_t address,
			    int device, uint32_t name)
{
	struct suballocation_shard *shard = device_shard(recorder, by, device);
	const struct ref_slot *slot;

	HOLD(&shard->lock);
	slot = ref_table_slot_of(&shard->blocks, address);
	if (!slot || slot->mark == FREED)
		return false;
	shared_store(block_of(recorder, slot)->history, name);
	return true;
}

/* ---- look-ups by the guard ---- */

#define SUBALLOCATION_GRAIN 512u
#define PROBES_MAX 2048u

/* Locking: the caller holds SHARD's lock. Looks at the suballocation that begins at BEGIN. Returns
 * true if the search is over. */
static bool probe(struct recorder *recorder, const struct suballocation_shard *shard,
		  uint64_t begin, uint64_t address, struct ledger_block *ret,
		  enum suballocation_state *state)
{
	const struct ref_slot *slot = ref_table_slot_of(&shard->blocks, begin);
	const struct ledger_block *block = slot ? block_of(recorder, slot) : NULL;
	bool contains = block && address - begin < block->bytes;

	if (contains && (slot->mark != FREED || *state == SUBALLOCATION_UNKNOWN)) {
		*ret = *block;
		*state = slot->mark != FREED ? SUBALLOCATION_LIVE : SUBALLOCATION_FREED;
	}
	return block && slot->mark != FREED;
}

enum suballocation_state suballocation_around(struct recorder *recorder, int device,
					      uint64_t address, uint64_t lowest,
					      struct ledger_block *ret)
{
	struct suballocation_shard *shard =
		device_shard(recorder, SUBALLOCATOR_PYTORCH, device);
	enum suballocation_state state = SUBALLOCATION_UNKNOWN;
	uint64_t begin = address & ~(uint64_t)(SUBALLOCATION_GRAIN - 1);

	HOLD(&shard->lock);
	if (!shard->blocks.used)
		return SUBALLOCATION_UNKNOWN;
	for (unsigned int probes = 0; probes < PROBES_MAX; probes++, begin -= SUBALLOCATION_GRAIN) {
		if (probe(recorder, shard, begin, address, ret, &state) || begin <= lowest)
			return state;
	}
	state = SUBALLOCATION_UNKNOWN; /* unless one begins with the block: a large tensor */
	probe(recorder, shard, lowest, address, ret, &state);
	return state == SUBALLOCATION_LIVE ? state : SUBALLOCATION_UNKNOWN;
}
