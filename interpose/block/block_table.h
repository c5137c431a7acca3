/* SPDX-License-Identifier: MIT
 *
 * The table of blocks: the key of an address or handle, the shard that has the key, and the struct
 * of an entry. A thread needs no lock for this part. block_entry.h has the functions that need the
 * shard's lock. A thread holds that lock only for work on the table, never while it unwinds,
 * writes stacks or calls the driver.
 */
#ifndef GPULEAK_BLOCKS_TABLE_H
#define GPULEAK_BLOCKS_TABLE_H

#include <stddef.h>

#include "interpose/block/call.h"
#include "interpose/recorder/recorder.h"
#include "interpose/base/hash.h"
#include "ledger/shared.h"

/* One address or handle that a driver handed out. */
struct entry {
	uint64_t key; /* an address or handle, and its space (enum space): see key_in() */
	struct ledger_block *block; /* live, or NULL */
	struct ledger_block *deferred; /* released, but the driver still has its memory; or NULL */
	/* the driver will report the block's end with this number; or 0 */
	uint64_t watched;
	struct block_hint *hint;  /* if the block is or was the pool's; or NULL */
	/* the last two ended blocks, newest first; NULL until the first free */
	struct past *past;
	/* size of the address range in bytes; the memory may be counted by another block */
	uint64_t span;
	/* among the shard's dead entries, or unused structs: see block_entry.h */
	struct entry *older, *newer;
	UT_hash_handle hh;
};

/* ---- keys and shards ---- */

/* Returns the key of ADDRESS (or a handle) in SPACE: the space is mixed into the upper eight bits,
 * which no address and no handle uses. */
static inline uint64_t key_in(unsigned int space, uint64_t address)
{
	return address ^ (uint64_t)space << 56;
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
	return hint ? atomic_load_explicit(&SHARED(hint->entry), memory_order_relaxed) : NULL;
}

/* Returns KEY's shard and prefetches it and ENTRY, which may be NULL. Capturing the stack takes as
 * long as fetching them, and between two calls the application often evicts them from the
 * caches. */
static HOT struct shard *shard_soon(struct recorder *recorder, uint64_t key, struct entry *entry)
{
	struct shard *shard = shard_of(recorder, key);

	SOON_WRITTEN(shard);
	if (entry) {
		SOON_WRITTEN(entry);
		SOON_WRITTEN(&entry->newer); /* its second line */
	}
	return shard;
}

/* ---- blocks ---- */

static inline void count_in_site(struct recorder *recorder, uint32_t site_ref, size_t field,
				 uint64_t by)
{
	uint8_t *site = ledger_at(&recorder->writer, site_ref);

	atomic_fetch_add_explicit(&SHARED(*(uint64_t *)(void *)(site + field)), by,
				  memory_order_relaxed);
}

/* Copies the live block with KEY to *RET, see entry_tell(). Returns its name in the ledger, or 0 if
 * no live block has KEY. */
uint64_t block_live_name(struct recorder *recorder, uint64_t key, struct ledger_block *ret);
/* The same, but returns true if a live block has KEY. */
bool block_live(struct recorder *recorder, uint64_t key, struct ledger_block *ret);

#endif
