/* SPDX-License-Identifier: MIT
 *
 * The table of blocks: the key of an address or handle, the shard that has the key, and the struct
 * of an entry. A thread holds a shard's lock only for work on the table, never while it unwinds,
 * writes stacks or calls the driver.
 */
#pragma once

#include <stddef.h>

#include "interpose/base/hash.h"
#include "interpose/block/call.h"
#include "interpose/block/error_record.h"

/* One address or handle that a driver handed out. A live block has one, so it fills a single cache
 * line: what only a block needs shares its place with what only a dead or unused entry needs. */
struct entry {
	uint64_t key; /* an address or handle, and its space (enum space): see key_in() */
	struct entry *next; /* in the chain of its bucket */
	struct ledger_block *block; /* live, or NULL */
	struct ledger_block *deferred; /* released, but the driver still has its memory; or NULL */
	/* the driver will report the block's end with this number; or 0 */
	uint64_t watched;
	/* the last two ended blocks, newest first; NULL until the first free */
	struct past *past;
	union {
		struct { /* with a live block or a deferred free */
			/* bytes of the address range; another block may count its memory */
			uint64_t span;
			struct block_hint *hint; /* if the block is the pool's; or NULL */
		};
		/* among the shard's dead entries, or unused structs: see below */
		struct {
			struct entry *older, *newer;
		};
	};
};
_Static_assert(sizeof(struct entry) == 64, "an entry fills one cache line");

/* ---- keys and shards ---- */

/* Returns the key of ADDRESS (or a handle) in SPACE: the space is mixed into the upper eight bits,
 * which no address and no handle uses. */
static inline uint64_t key_in(unsigned int space, uint64_t address)
{
	return address ^ (uint64_t)space << 56;
}

/* Returns the space of KEY, which is the key of ADDRESS. */
static inline unsigned int key_space(uint64_t key, uint64_t address)
{
	return (unsigned int)((key ^ address) >> 56);
}

static inline uint64_t key_of(const struct call *call, uint64_t address)
{
	return key_in(call->space, address);
}

/* Returns the key of OTHER in the space of KEY, which is the key of ADDRESS. */
static inline uint64_t key_beside(uint64_t key, uint64_t address, uint64_t other)
{
	return key ^ address ^ other;
}

static inline enum space space_of_object(const struct hook *hook)
{
	return SPACE_OBJECT + (unsigned int)hook->api * KIND_COUNT + hook->object;
}

static inline struct shard *shard_of(struct recorder *recorder, uint64_t key)
{
	return &recorder->blocks->shard[TABLE_MIX(key) >> 57];
}
_Static_assert(SPACE_END <= 256, "key_in() has eight bits for the space");
_Static_assert(BLOCK_SHARDS == 128, "shard_of() takes seven bits of the hash");

/* Returns a hint for entry_known(); NULL if HINT is NULL. */
static HOT struct entry *hint_entry(const struct block_hint *hint)
{
	return hint ? shared_load(hint->entry) : NULL;
}

/* Returns KEY's shard and prefetches it and ENTRY, which may be NULL. Capturing the stack takes as
 * long as fetching them, and between two calls the application often evicts them from the
 * caches. */
static HOT struct shard *shard_soon(struct recorder *recorder, uint64_t key, struct entry *entry)
{
	struct shard *shard = shard_of(recorder, key);

	SOON_WRITTEN(shard);
	if (entry)
		SOON_WRITTEN(entry);
	return shard;
}

/* ---- blocks ---- */

static inline void count_in_site(struct recorder *recorder, uint32_t site_ref, size_t field,
				 uint64_t by)
{
	uint8_t *site = ledger_at(&recorder->writer, site_ref);

	shared_add(*(uint64_t *)(void *)(site + field), by);
}

/* Copies the live block with KEY to *RET, see entry_tell(). Returns its name in the ledger, or 0 if
 * no live block has KEY. */
uint64_t block_live_name(struct recorder *recorder, uint64_t key, struct ledger_block *ret);
/* The same, but returns true if a live block has KEY. */
bool block_live(struct recorder *recorder, uint64_t key, struct ledger_block *ret);

/* ---- entries: finds them, and links the dead ones in the order in which their blocks ended. A
 * dead entry has neither a live block nor a deferred free. Every function from here on needs the
 * lock of the entry's shard. Functions that each pair of calls (an allocation and its free) of
 * linear memory executes are inline. ---- */

/* ---- look-ups ---- */

/* A test that counts look-ups defines this macro. */
#ifndef ENTRY_LOOKED_UP
#define ENTRY_LOOKED_UP()
#endif

static HOT struct entry **entry_bucket(const struct shard *shard, uint64_t key)
{
	return &shard->bucket[table_hash(key) & (shard->buckets - 1)];
}

static HOT struct entry *entry_find(struct shard *shard, uint64_t key)
{
	struct entry *entry;

	ENTRY_LOOKED_UP();
	if (!shard->buckets)
		return NULL;
	entry = *entry_bucket(shard, key);
	while (entry && entry->key != key)
		entry = entry->next;
	return entry;
}

/* Returns the entry of SHARD after ENTRY, or the first one if ENTRY is NULL; NULL at the end. */
struct entry *entry_after(const struct shard *shard, const struct entry *entry);
/* A loop over all entries of SHARD. It may remove entries other than AT, the present one. */
#define FOR_ENTRIES(shard, at)                                                              \
	for (struct entry *at = entry_after(shard, NULL); at; at = entry_after(shard, at))

/* Locking: the caller holds the lock of KEY's shard. Returns true if ENTRY is KEY's entry. ENTRY
 * may be NULL, or an entry that was KEY's earlier: its memory stays with the shard, and the key of
 * an entry that is not in the table is 0. */
static HOT bool entry_is(const struct entry *entry, uint64_t key)
{
	return entry && shared_load(entry->key) == key;
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

/* Makes BLOCK, with SPAN and HINT, live again in ENTRY, as if its free had not been tried. */
void entry_revive(struct shard *shard, struct entry *entry, struct ledger_block *block,
		  uint64_t span, struct block_hint *hint);
