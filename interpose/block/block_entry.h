/* SPDX-License-Identifier: MIT
 *
 * Entries of the table of blocks: finds one, and links those without a live block in the order in
 * which their blocks ended. Every function needs the lock of the entry's shard. Inline is what a
 * pair of calls on linear memory passes through.
 */
#ifndef GPULEAK_BLOCK_ENTRY_H
#define GPULEAK_BLOCK_ENTRY_H

#include "interpose/block/block_table.h"
#include "interpose/block/error_record.h"

/* ---- look-ups ---- */

/* Tests that count look-ups define it. */
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

/* Locking: the caller holds the lock of KEY's shard. Returns true if ENTRY, which was KEY's entry
 * once or is NULL, still is. Any entry of the shard may be passed: its memory stays with the shard,
 * and an entry that left the table has no key. */
static HOT bool entry_is(const struct entry *entry, uint64_t key)
{
	return entry && atomic_load_explicit(&SHARED(entry->key), memory_order_relaxed) == key;
}

/* As entry_find(). HINT: see entry_is(). */
static HOT struct entry *entry_known(struct shard *shard, uint64_t key, struct entry *hint)
{
	return entry_is(hint, key) ? hint : entry_find(shard, key);
}

/* Copies the live block of ENTRY for an error record, which states its address space as bytes. */
static inline void entry_tell(const struct entry *entry, struct ledger_block *ret)
{
	*ret = *entry->block;
	ret->bytes = entry->span;
}

/* ---- entries without a live block, linked in the order in which their blocks ended ---- */

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

/* Adds ENTRY, which has no block any more. The oldest such entry may be forgotten for it. */
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

/* Returns KEY's entry without a live block; NULL if there is no memory. *RET_STALE gets a block
 * that was still in it. HINT: see entry_is(). */
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

/* The live block of ENTRY ends as ENDING describes and becomes its newest past. Returns it. */
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

/* The same, and nothing more is to come: ENTRY has no block any more. */
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
