/* SPDX-License-Identifier: MIT
 *
 * The changes of a block's state that each pair of calls makes, inline: block_state.c has the other
 * changes and the drawing of all states. The rules of block_state.h hold here.
 */
#ifndef GPULEAK_BLOCK_STATE_HOT_H
#define GPULEAK_BLOCK_STATE_HOT_H

#include "interpose/block/block_state.h"
#include "interpose/block/deferred_totals.h"
#include "interpose/block/limit.h"
#include "interpose/recorder/thread_state_hot.h"

/* ---- unused -> live ---- */

/* What the table keeps of a new block. */
struct new_block {
	uint64_t key, span;
	bool shared; /* a live block of the same key gets one more reference instead */
	uint64_t watched;
	struct standing *standing; /* of a pooled block, or NULL */
};

enum inserted { INSERTED, INSERTED_REFERENCE, INSERTED_NOWHERE };

/* Puts BLOCK into the table as live. SHARD is the shard of NEW->key. *RET_STALE gets a block that
 * had the key until now although it should have ended: the caller drops it. */
static HOT enum inserted block_insert(struct recorder *recorder, struct shard *shard,
				      const struct new_block *new, struct ledger_block *block,
				      struct ledger_block **ret_stale)
{
	struct standing *standing = new->standing;
	struct entry *entry;

	*ret_stale = NULL;
	lock_take(&shard->lock);
	entry = new->shared ? entry_find(shard, new->key) : NULL;
	if (entry && entry->block) {
		entry->block->references++;
		lock_give_soon(&shard->lock);
		return INSERTED_REFERENCE;
	}
	entry = entry_for(&recorder->arena, shard, new->key, standing_entry(standing), ret_stale);
	if (entry) {
		entry->block = block;
		entry->span = new->span;
		entry->watched = new->watched;
		entry->standing = standing;
	}
	if (entry && standing) {
		__atomic_store_n(&standing->entry, entry, __ATOMIC_RELAXED);
		atomic_store_explicit(&standing->recorded, true, memory_order_relaxed);
	}
	lock_give_soon(&shard->lock);
	return entry ? INSERTED : INSERTED_NOWHERE;
}

/* ---- live -> being freed ---- */

/* Locking: the caller holds the shard's lock. Takes one of several references of BLOCK. SPARE: see
 * entry_lock(). */
COLD void block_count_down(struct recorder *recorder, struct ledger_block *block,
			   struct ledger_history **spare, const struct past *ending,
			   struct freeing *freeing);

static HOT void begin_last(struct recorder *recorder, struct shard *shard, struct entry *entry,
			   struct past *ending, struct freeing *freeing)
{
	freeing->block = entry->block;
	freeing->bytes = __atomic_load_n(&entry->block->bytes, __ATOMIC_RELAXED);
	freeing->span = entry->span;
	freeing->standing = entry->standing;
	ledger_block_set(entry->block, LEDGER_BLOCK_FREEING);
	if (!entry->watched) {
		entry_die(&recorder->arena, shard, entry, ending);
		return;
	}
	freeing->watched = true;
	freeing->use = entry->block->state >> 8;
	ending->freed_ns = freeing->since_ns = deferred_now(recorder);
	entry->deferred = entry_end(&recorder->arena, entry, ending);
	thread_self.releasing = (struct releasing){
		entry, freeing->block, entry->watched, false,
	};
}

/* Starts the free of FREEING->key, which is in SHARD and which ENDING describes. The last reference
 * takes the block out of the table, any other is counted down. FREEING gets the outcome. HINT: see
 * entry_is(). Returns false if a block had the key and another free has taken it out. */
static HOT bool block_begin_free(struct recorder *recorder, struct shard *shard, struct entry *hint,
			       struct past *ending, struct freeing *freeing)
{
	struct ledger_history *spare;
	struct entry *entry = entry_lock(recorder, shard, freeing->key, hint, 2, &spare);
	bool known = true;

	if (entry && entry->block && entry->block->references > 1)
		block_count_down(recorder, entry->block, &spare, ending, freeing);
	else if (entry && entry->block)
		begin_last(recorder, shard, entry, ending, freeing);
	else
		known = !entry || entry->deferred;
	entry_unlock(recorder, shard, spare);
	if (freeing->watched)
		deferred_add(recorder, (int64_t)freeing->bytes);
	return known;
}

/* ---- any state -> unused ---- */

/* See block_drop(). */
static HOT void block_drop_hot(struct recorder *recorder, struct ledger_block *block, int64_t bytes)
{
	struct stripe *stripe = thread_self.stripe;
	uint32_t history = block->history;

	stripe_lock(stripe);
	stripe_live_add(recorder, stripe, -bytes, 0);
	if (__builtin_expect(atomic_load_explicit(&limits_on, memory_order_relaxed), 0))
		limits_block_ended(recorder, block->row, (uint64_t)bytes);
	stripe_give_slot(recorder, stripe, block);
	stripe_unlock(stripe);
	if (history) /* only now: a reader must not find it with a live block */
		history_give(recorder, ledger_at(&recorder->writer, history));
}

#endif
