/* SPDX-License-Identifier: MIT
 *
 * Stores the mappings of each mapped memory object in the shard of its handle. The ledger has one
 * record for each such object, and an unused struct keeps its record. Must not call the driver.
 */
#include "interpose/block/mappings.h"

#include <utlist.h>

#include "interpose/block/block_table.h"
#include "interpose/recorder/live_bytes.h"

/* A mapped memory object, or an unused struct. */
struct mapped {
	uint64_t key;
	struct ledger_mapped *record; /* never NULL */
	struct mapping *mappings;     /* in the order of the calls */
	unsigned int listed;          /* number of elements of `mappings` */
	unsigned int unlisted;        /* number of further mappings, which are only counted */
	struct mapped *next;          /* the next unused struct */
	UT_hash_handle hh;
};

/* ---- the caller holds the shard's lock ---- */

static struct mapped *mapped_lookup(struct shard *shard, uint64_t key)
{
	struct mapped *mapped;

	TABLE_FIND(shard->mapped, &key, mapped);
	return mapped;
}

/* Adds MAPPED, which is in no table, to the shard's list of unused structs. Ends its mappings. */
static void mapped_remove(struct arena *arena, struct shard *shard, struct mapped *mapped)
{
	struct mapping *mapping, *next;

	LL_FOREACH_SAFE(mapped->mappings, mapping, next)
		arena_give(arena, mapping, sizeof(*mapping));
	mapped->mappings = NULL;
	mapped->listed = mapped->unlisted = 0;
	LL_PREPEND(shard->spare_mapped, mapped);
}

/* Removes MAPPED from the table, because its block is unmapped or has ended. */
static void take_out(struct recorder *recorder, struct shard *shard, struct mapped *mapped)
{
	TABLE_REMOVE(&recorder->arena, shard->mapped, mapped);
	shared_publish(mapped->record->block, 0);
}

static uint64_t name_of(struct recorder *recorder, const struct ledger_block *block)
{
	return ledger_block_name(block->state, ledger_ref(&recorder->writer, block));
}

/* Returns the mappings of BLOCK, whose key is KEY, or NULL. Drops mappings of an earlier block with
 * that key. */
static struct mapped *mapped_of_block(struct recorder *recorder, struct shard *shard, uint64_t key,
				      const struct ledger_block *block)
{
	struct mapped *mapped = mapped_lookup(shard, key);

	if (!mapped || mapped->record->block == name_of(recorder, block))
		return mapped;
	take_out(recorder, shard, mapped);
	mapped_remove(&recorder->arena, shard, mapped);
	return NULL;
}

/* Writes the number of mappings and the oldest one into the ledger, for the report. */
static void write_record(struct mapped *mapped, uint64_t name)
{
	struct ledger_mapped *record = mapped->record;
	const struct mapping *first = mapped->mappings;

	shared_publish(record->block, 0);
	atomic_thread_fence(memory_order_seq_cst); /* no reader sees new fields with the old name */
	record->count = mapped->listed + mapped->unlisted;
	record->time_ns = first ? first->time_ns : 0;
	record->api = first ? first->api : 0;
	record->stack = first ? first->stack : 0;
	shared_publish(record->block, name);
}

static void add_mapping(struct arena *arena, struct mapped *mapped, const struct mapping *new)
{
	struct mapping *mapping = mapped->listed < MAPPINGS_LISTED_MAX
					  ? arena_take(arena, sizeof(*mapping))
					  : NULL;

	if (!mapping) {
		mapped->unlisted++;
		return;
	}
	*mapping = *new;
	LL_APPEND(mapped->mappings, mapping);
	mapped->listed++;
}

/* Returns the block with NAME if a thread is freeing it. Its entry has no block then, and its
 * mappings may end meanwhile, because they keep the memory object. Otherwise returns NULL. */
static struct ledger_block *block_being_freed(struct recorder *recorder, uint64_t name)
{
	struct ledger_block *block = name ? ledger_at(&recorder->writer, (uint32_t)name) : NULL;
	uint32_t state;

	if (!block)
		return NULL;
	state = shared_load_acquire(block->state);
	return LEDGER_BLOCK_STATE(state) == LEDGER_BLOCK_FREEING && state >> 8 == name >> 32
		       ? block : NULL;
}

/* Returns the block with KEY, or NULL. The block may have been released if the driver still has
 * it. If there is no such block, returns the one with NAME or the mapped one that was KEY's, while
 * its release is in the driver. NAME may be 0. */
static struct ledger_block *block_of_key(struct recorder *recorder, struct shard *shard,
					 uint64_t key, uint64_t name)
{
	struct entry *entry = entry_find(shard, key);
	struct mapped *mapped;

	if (entry && (entry->block || entry->deferred))
		return entry->block ? entry->block : entry->deferred;
	mapped = name ? NULL : mapped_lookup(shard, key);
	return block_being_freed(recorder, mapped ? mapped->record->block : name);
}

/* Stores in BLOCK that it is mapped (MAPPED is LEDGER_BLOCK_MAPPED), or not (0). */
static void mark_mapped(struct recorder *recorder, struct ledger_block *block, uint32_t mapped)
{
	enum ledger_hidden hidden = live_bytes_hidden(block);

	if (mapped)
		atomic_fetch_or_explicit(&SHARED(block->marked), mapped, memory_order_relaxed);
	else
		atomic_fetch_and_explicit(&SHARED(block->marked), ~LEDGER_BLOCK_MAPPED,
					  memory_order_relaxed);
	live_bytes_rehide(recorder, block, (int64_t)block->bytes, hidden, live_bytes_hidden(block));
}

/* Adds a mapping to BLOCK. Returns false if the shard has no unused struct mapped or no memory. */
static bool mapped_add_mapping(struct recorder *recorder, struct shard *shard, uint64_t key,
			       struct ledger_block *block, const struct mapping *new)
{
	struct mapped *mapped = mapped_of_block(recorder, shard, key, block);

	if (!mapped) {
		mapped = shard->spare_mapped;
		if (!mapped)
			return false;
		LL_DELETE(shard->spare_mapped, mapped);
		mapped->key = key;
		if (!TABLE_ADD(&recorder->arena, shard->mapped, key, mapped)) {
			LL_PREPEND(shard->spare_mapped, mapped);
			return false;
		}
	}
	add_mapping(&recorder->arena, mapped, new);
	write_record(mapped, name_of(recorder, block));
	mark_mapped(recorder, block, LEDGER_BLOCK_MAPPED);
	return true;
}

struct mapped *mappings_take(struct recorder *recorder, struct shard *shard, uint64_t key,
			     struct ledger_block *block)
{
	struct mapped *mapped;

	if (!(shared_load(block->marked) & LEDGER_BLOCK_MAPPED))
		return NULL;
	mapped = mapped_lookup(shard, key);
	if (mapped && mapped->record->block != name_of(recorder, block))
		mapped = NULL; /* of a later block with the handle */
	if (mapped)
		take_out(recorder, shard, mapped);
	mark_mapped(recorder, block, 0);
	return mapped;
}

/* ---- the caller holds no shard's lock ---- */

/* Adds an unused struct mapped to SHARD. Holds no lock meanwhile, because the ledger may have to
 * grow. */
static void allocate_spares(struct recorder *recorder, struct shard *shard)
{
	uint32_t ref = ledger_add_mapped(&recorder->writer, NULL);
	struct mapped *mapped = ref ? arena_take(&recorder->arena, sizeof(*mapped)) : NULL;

	if (!mapped)
		return; /* out of memory: a new record of a few bytes may stay unused */
	*mapped = (struct mapped){ .record = ledger_at(&recorder->writer, ref) };
	HOLD(&shard->lock);
	LL_PREPEND(shard->spare_mapped, mapped);
}

/* Adds a mapping to the block with KEY, if there is one. NAME: see block_of_key(). */
static void attach(struct recorder *recorder, uint64_t key, uint64_t name,
		   const struct mapping *new)
{
	struct shard *shard = shard_of(recorder, key);
	struct ledger_block *block;
	bool added;

	for (bool tried = false;; tried = true) {
		lock_take(&shard->lock);
		block = block_of_key(recorder, shard, key, name);
		added = !block || mapped_add_mapping(recorder, shard, key, block, new);
		lock_give(&shard->lock);
		if (added)
			return;
		if (tried)
			break;
		allocate_spares(recorder, shard);
	}
	ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_MAPPINGS, 1);
}

void record_mapped(const struct call *call, uint64_t handle, uint64_t address)
{
	struct mapping new = { .address = address };
	LEAVE_AT_END struct recorder *recorder = recorder_enter();

	if (!recorder)
		return;
	new.api = recorder_name_ref(recorder, call->hook);
	new.stack = stack_here(recorder, call->caller);
	new.time_ns = recorder_time(recorder);
	attach(recorder, key_of(call, handle), 0, &new);
}

/* Removes the mapping at ADDRESS and stores it in *RET. Of several at one address it takes the
 * latest, because mappings of the same memory mostly nest. */
static bool take_mapping_at(struct arena *arena, struct mapped *mapped, uint64_t address,
			    struct mapping *ret)
{
	struct mapping *found = NULL, *mapping;

	LL_FOREACH(mapped->mappings, mapping)
		if (mapping->address == address)
			found = mapping;
	if (found) {
		*ret = *found;
		LL_DELETE(mapped->mappings, found);
		arena_give(arena, found, sizeof(*found));
		mapped->listed--;
	} else if (mapped->unlisted) {
		*ret = (struct mapping){ .address = address };
		mapped->unlisted--;
		return true;
	}
	return found != NULL;
}

void record_unmapping(const struct call *call, uint64_t handle, uint64_t address,
		      struct unmapping *ret)
{
	uint64_t key = key_of(call, handle);
	LEAVE_AT_END struct recorder *recorder = handle ? recorder_enter() : NULL;
	struct ledger_block *block;
	struct mapped *mapped;
	struct shard *shard;

	ret->recorder = NULL;
	if (!recorder)
		return;
	ret->key = key;
	shard = shard_of(recorder, key);
	HOLD(&shard->lock);
	block = block_of_key(recorder, shard, key, 0);
	mapped = block ? mapped_of_block(recorder, shard, key, block) : NULL;
	if (!mapped || !take_mapping_at(&recorder->arena, mapped, address, &ret->mapping))
		return;
	ret->recorder = recorder;
	ret->block = name_of(recorder, block);
	if (mapped->listed + mapped->unlisted)
		write_record(mapped, name_of(recorder, block));
	else
		mapped_remove(&recorder->arena, shard, mappings_take(recorder, shard, key, block));
}

void record_unmapping_failed(const struct unmapping *unmapping)
{
	LEAVE_AT_END struct recorder *recorder = unmapping->recorder ? recorder_enter() : NULL;

	if (recorder && recorder == unmapping->recorder)
		attach(recorder, unmapping->key, unmapping->block, &unmapping->mapping);
}

bool record_is_mapped(enum space space, uint64_t handle)
{
	uint64_t key = key_in(space, handle);
	struct recorder *now = recorder_now();
	/* `mapped` has all mapped blocks of the shard. Without the lock it is correct for blocks
	 * that no other thread maps now. */
	LEAVE_AT_END struct recorder *recorder =
		now && shared_load(shard_of(now, key)->mapped) ? recorder_enter() : NULL;
	struct ledger_block *block;

	if (!recorder)
		return false;
	HOLD(&shard_of(recorder, key)->lock);
	block = block_of_key(recorder, shard_of(recorder, key), key, 0);
	return block && (shared_load(block->marked) & LEDGER_BLOCK_MAPPED);
}

void mappings_pass_on(struct recorder *recorder, struct mapped *mapped, uint64_t parent)
{
	struct shard *shard = shard_of(recorder, parent);
	struct mapping *mapping;

	LL_FOREACH(mapped->mappings, mapping)
		attach(recorder, parent, 0, mapping);
	for (unsigned int i = 0; i < mapped->unlisted; i++)
		attach(recorder, parent, 0, &(struct mapping){ 0 });
	HOLD(&shard->lock);
	mapped_remove(&recorder->arena, shard, mapped);
}
