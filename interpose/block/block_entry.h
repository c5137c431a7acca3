/* SPDX-License-Identifier: MIT
 *
 * Entries of the table of blocks: finds them, and links the dead ones in the order in which their
 * blocks ended. A dead entry has neither a live block nor a deferred free. Every function needs the
 * lock of the entry's shard. Functions that each pair of calls (an allocation and its free) of
 * linear memory executes are inline.
 */
#ifndef GPULEAK_BLOCK_ENTRY_H
#define GPULEAK_BLOCK_ENTRY_H

#include "interpose/block/block_table.h"
#include "interpose/block/error_record.h"

/* ---- look-ups ---- */

/* A test that counts look-ups defines this macro. */
#ifndef ENTRY_LOOKED_UP
#define ENTRY_LOOKED_UP()
#endif

static HOT struct entry *entry_find(struct shard *shard, uint64_t key)
{
	struct entry *entry;

	ENTRY_LOOKED_UP();
	TABLE_FIND(shard->entries, &key, entry);
	return entry;
}

/* Locking: the caller holds the lock of KEY's shard. Returns true if ENTRY is KEY's entry. ENTRY
 * may be NULL, or an entry that was KEY's earlier: its memory stays with the shard, and the key of
 * an entry that is not in the table is 0. */
static HOT bool entry_is(const struct entry *entry, uint64_t key)
{
	return entry && atomic_load_explicit(&SHARED(entry->key), memory_order_relaxed) == key;
}

/* Like entry_find(), but does not search if HINT is KEY's entry. HINT: see ENTRY of entry_is(). */
static HOT struct entry *entry_known(struct shard *shard, uint64_t key, struct entry *hint)
{
	return entry_is(hint, key) ? hint : entry_find(shard, key);
}

/* Copies the live block of ENTRY to *RET, for an error record. As `bytes` the copy has the size of
 * the block's address range. */
static inline void entry_tell(const struct entry *entry, struct ledger_block *ret)
{
	*ret = *entry->block;
	ret->bytes = entry->span;
}

/* ---- dead entries, linked in the order in which their blocks ended ---- */

COLD struct entry *entry_new(struct arena *arena, struct shard *shard, uint64_t key);
COLD void entry_forget(struct arena *arena, struct shard *shard, struct entry *entry);

static HOT void entry_unlink_dead(struct shard *shard, struct entry *entry)
{
	if (entry->older)
		entry->older->newer = entry->newer;
	else
		shard->oldest = entry->newer;
	if (entry->newer)
		entry->newer->older = entry->older;
	else
		shard->newest = entry->older;
	entry->older = entry->newer = NULL;
	shard->dead--;
}

/* Adds ENTRY, which has no block any more, to the dead entries. If there are too many, forgets the
 * oldest one. */
static HOT void entry_link_dead(struct arena *arena, struct shard *shard, struct entry *entry)
{
	entry->older = shard->newest;
	entry->newer = NULL;
	if (shard->newest)
		shard->newest->newer = entry;
	else
		shard->oldest = entry;
	shard->newest = entry;
	if (++shard->dead > BLOCK_PAST_MAX) {
		struct entry *oldest = shard->oldest;

		entry_unlink_dead(shard, oldest);
		entry_forget(arena, shard, oldest);
	}
}

/* Returns KEY's entry for a new block: without a block, and not among the dead entries. Makes the
 * entry if KEY is new. Returns NULL if memory is short. Stores in *RET_STALE the live or deferred
 * block that the entry still had, or NULL. HINT: see entry_known(). */
static HOT struct entry *entry_for(struct arena *arena, struct shard *shard, uint64_t key,
				   struct entry *hint, struct ledger_block **ret_stale)
{
	struct entry *entry = entry_known(shard, key, hint);

	*ret_stale = NULL;
	if (entry && (entry->block || entry->deferred)) {
		*ret_stale = entry->block ? entry->block : entry->deferred;
		entry->block = entry->deferred = NULL;
		return entry;
	}
	if (!entry)
		return entry_new(arena, shard, key);
	entry_unlink_dead(shard, entry);
	return entry;
}

/* Ends the live block of ENTRY as ENDING describes, and returns it. The entry's newest past becomes
 * ENDING with the block's call site, size and time. */
static HOT struct ledger_block *entry_end(struct arena *arena, struct entry *entry,
					  const struct past *ending)
{
	struct ledger_block *block = entry->block;

	if (!entry->past)
		entry->past = arena_take(arena, 2 * sizeof(*entry->past));
	if (entry->past) {
		entry->past[1] = entry->past[0];
		entry->past[0] = *ending;
		entry->past[0].site = block->site;
		entry->past[0].bytes = entry->span;
		entry->past[0].made_ns = block->time_ns;
	}
	entry->block = NULL;
	return block;
}

/* Like entry_end(), and adds ENTRY to the dead entries. */
static HOT struct ledger_block *entry_die(struct arena *arena, struct shard *shard,
					  struct entry *entry, const struct past *ending)
{
	struct ledger_block *block = entry_end(arena, entry, ending);

	entry_link_dead(arena, shard, entry);
	return block;
}

/* Makes BLOCK live again in ENTRY, as if its free had not been tried. */
void entry_revive(struct shard *shard, struct entry *entry, struct ledger_block *block);

#endif
