/* SPDX-License-Identifier: MIT
 *
 * The states of a block and the changes between them, for blocks.c, free.c and free_race.c. Each
 * function takes the lock of the block's shard itself and needs the recorder to be entered. No
 * function calls the driver, records an error or captures a stack.
 */
#pragma once

#include "interpose/block/block_table.h"
#include "interpose/block/deferred_totals.h"
#include "interpose/block/limit.h"
#include "interpose/block/queries.h"
#include "interpose/block/refcount_history.h"
#include "interpose/recorder/live_bytes.h"

/* ---- the driver refused ---- */

/* Makes FREEING's block live again. */
void block_undo_free(struct recorder *recorder, const struct freeing *freeing);
/* Adds the reference again that FREEING removed from the handle. */
void block_undo_count_down(struct recorder *recorder, const struct freeing *freeing);
/* The driver's call that was to free LEFT was left by a jump, an exception or cancellation. Makes
 * the block live again, unless the driver reported its end or gave its key to another block. */
void block_undo_left_free(struct recorder *recorder, const struct call_free *left);

/* ---- the driver accepted ---- */

/* Makes BLOCK's slot unused and subtracts BYTES from the live bytes. BLOCK must not be in the table
 * any more. */
void block_drop(struct recorder *recorder, struct ledger_block *block, int64_t bytes);

/* Counts that BLOCK is freed after the driver had begun to shut down. */
COLD void block_count_late(struct recorder *recorder, const struct ledger_block *block);

/* FREEING's block ends with the call. Moves its mappings to the block that it is a part of, or
 * drops them if there is no such block. */
void block_drop_mappings(struct recorder *recorder, const struct freeing *freeing);

/* A call removed the last reference of a watched block and returned at NOW_NS of
 * recorder_fine_time(). API is the ref of the call's name. If the driver has reported the end of
 * the block meanwhile, ends the block. Otherwise the driver still has its memory, and the block
 * becomes released. */
void block_end_watched(struct recorder *recorder, uint32_t api, const struct freeing *freeing,
		       uint64_t now_ns);

/* The driver reports the end of the block that was made with WATCHED and has KEY, on another thread
 * than the one that frees it, or after the release. Moves its mappings as block_drop_mappings()
 * does. */
void block_destroyed(struct recorder *recorder, uint64_t key, uint64_t watched);

/* The process ends, and the driver will destroy what is left. A released block stays released if a
 * live block is a part of it: the driver's report of its end then counts for nothing. */
void block_keep_parents(struct recorder *recorder);

/* ---- other changes ---- */

/* Adds a reference to KEY's block by EVENT; a released block becomes live again. Returns false if
 * no block has KEY. */
bool block_retain(struct recorder *recorder, uint64_t key, const struct ledger_reference *event);

/* Adds BY references, which may be negative, to KEY's live block, which keeps at least one. Returns
 * how many were added. */
int64_t block_add_references(struct recorder *recorder, uint64_t key, int64_t by);

/* Changes `watched` of KEY's entry from BEFORE to AFTER. Returns false if it is not BEFORE. */
bool block_set_watched(struct recorder *recorder, uint64_t key, uint64_t before, uint64_t after);

/* Ends BLOCK as ENDING describes. RET_PAST gets the last two ended blocks of KEY, BLOCK first.
 * Returns false if BLOCK is not live under KEY any more. */
bool block_end_live(struct recorder *recorder, uint64_t key, struct ledger_block *block,
		    const struct past *ending, struct past ret_past[2]);

/* Ends every block of CONTEXT. */
void block_end_with_context(struct recorder *recorder, uint64_t context,
			    const struct past *ending);

/* ---- the changes that each pair of calls makes, inline; block_state.c has the drawing of all
 * states ---- */

/* ---- unused -> live ---- */

/* A new block: what the table and the ledger will store of it. */
struct new_block {
	uint64_t key, span;
	bool shared; /* if KEY has a live block, it gets one more reference instead */
	uint64_t watched;
	struct block_hint *hint; /* of a pooled block, or NULL */
	uint64_t address, bytes, context, parent, time_ns; /* see struct ledger_block */
	int device;
	uint32_t stack;
};

/* Writes NEW into its slot BLOCK and counts it in SITE. Copies field by field: NEW's fields have
 * just been stored, and a copy in larger words would wait until they have left the processor's
 * store buffer. Stores atomically what another thread may read at this moment, to count the
 * holders of memory after a request was refused. */
static HOT void block_fill(struct recorder *recorder, struct ledger_block *block,
			   struct ledger_site *site, const struct new_block *new)
{
	block->marked = query_initial_marked();
	shared_store(block->site, ledger_ref(&recorder->writer, site));
	shared_store(block->address, new->address);
	shared_store(block->bytes, new->bytes);
	block->context = new->context;
	block->time_ns = new->time_ns;
	block->references = 1;
	block->thread = thread_self.thread;
	shared_store(block->parent, new->parent);
	block->history = 0;
	ledger_block_publish(block);
	shared_store(site->bytes, site->bytes + new->bytes);
	shared_publish(site->allocs, site->allocs + 1);
}

enum inserted {
	INSERTED,
	INSERTED_REFERENCE, /* a live block with the key got a reference instead */
	INSERTED_NOWHERE,   /* no memory for an entry */
};

/* Puts BLOCK into the table as live. SHARD is the shard of NEW->key. *RET_STALE gets the block that
 * the key's entry still had, although it should have ended, or NULL. The caller drops that
 * block. */
static HOT enum inserted block_insert(struct recorder *recorder, struct shard *shard,
				      const struct new_block *new, struct ledger_block *block,
				      struct ledger_block **ret_stale)
{
	struct block_hint *hint = new->hint;
	struct entry *entry;

	*ret_stale = NULL;
	lock_take(&shard->lock);
	entry = new->shared ? entry_find(shard, new->key) : NULL;
	if (entry && entry->block) {
		entry->block->references++;
		lock_give_soon(&shard->lock);
		return INSERTED_REFERENCE;
	}
	entry = entry_for(&recorder->arena, shard, new->key, hint_entry(hint), ret_stale);
	if (entry) {
		entry->block = block;
		entry->span = new->span;
		entry->watched = new->watched;
		entry->hint = hint;
	}
	if (entry && hint) {
		shared_store(hint->entry, entry);
		atomic_store_explicit(&hint->recorded, true, memory_order_relaxed);
	}
	lock_give_soon(&shard->lock);
	return entry ? INSERTED : INSERTED_NOWHERE;
}

/* ---- live -> being freed ---- */

/* Locking: the caller holds SHARD's lock, which the function releases. Does the work of
 * block_begin_free() if ENTRY is NULL, has no live block, or has one with several references. */
__attribute__((noinline)) bool block_begin_other(struct recorder *recorder, struct shard *shard,
						 struct entry *entry, const struct past *ending,
						 struct freeing *freeing);

/* Starts a free of the block with FREEING->key, which belongs to SHARD. ENDING describes the free.
 * If the block has one reference, takes it out of the table; otherwise removes one reference.
 * Stores in FREEING what was done. HINT: see entry_known(). Returns false if the key is known, but
 * its block has ended already or another thread is freeing it. */
static HOT bool block_begin_free(struct recorder *recorder, struct shard *shard, struct entry *hint,
				 const struct past *ending, struct freeing *freeing)
{
	struct ledger_block *block;
	struct entry *entry;

	lock_take(&shard->lock);
	entry = entry_known(shard, freeing->key, hint);
	block = entry ? entry->block : NULL;
	if (__builtin_expect(!block || block->references > 1, 0))
		return block_begin_other(recorder, shard, entry, ending, freeing);
	freeing->block = block;
	freeing->bytes = shared_load(block->bytes);
	freeing->span = entry->span;
	freeing->hint = entry->hint;
	freeing->watched = entry->watched;
	entry_die(&recorder->arena, shard, entry, ending);
	ledger_block_set(block, LEDGER_BLOCK_FREEING);
	lock_give_soon(&shard->lock);
	return true;
}

/* ---- any state -> unused ---- */

/* Locking: the caller holds the lock of its thread's state. Does what `alloc_checks` requests for
 * BLOCK of BYTES, which was freed or dropped: subtracts it from what GPULEAK_LIMIT counts and from
 * the live blocks that its call site counts, and adds the free to the trace. BLOCK still has its
 * last state. */
COLD void block_check_ended(struct recorder *recorder, const struct ledger_block *block,
			    uint64_t bytes);

/* See block_drop(). Does not count the end of a deferred free as hidden. */
static HOT void block_drop_hot(struct recorder *recorder, struct ledger_block *block, int64_t bytes)
{
	struct thread_state *state = thread_self.state;
	uint32_t history = block->history, ref = ledger_ref(&recorder->writer, block);
	struct ledger_site *site = ledger_at(&recorder->writer, block->site);

	thread_state_lock(state);
	live_bytes_remove(recorder, state, site, bytes);
	if (__builtin_expect(shared_load(block->marked) & LEDGER_BLOCK_IGNORED, 0) &&
	    live_bytes_hidden(block) == LEDGER_HIDDEN_IGNORED)
		live_bytes_rehide(recorder, block, bytes, LEDGER_HIDDEN_IGNORED,
				  LEDGER_HIDDEN_NOT);
	if (__builtin_expect(atomic_load_explicit(&alloc_checks, memory_order_relaxed), 0))
		block_check_ended(recorder, block, (uint64_t)bytes);
	ledger_block_set(block, LEDGER_BLOCK_UNUSED);
	slot_return(recorder, state, block, ref);
	thread_state_unlock(state);
	if (history) /* only now, so that no reader finds the unused history by a live block */
		history_give(recorder, ledger_at(&recorder->writer, history));
}
