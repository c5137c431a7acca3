/* SPDX-License-Identifier: MIT
 *
 * The table of blocks: keys, shards and entries, for the files of this folder that read or change
 * it. The functions that a pair of calls on linear memory passes through are inline here. A shard's
 * lock is held only for table work, never while unwinding, writing stacks or calling out.
 */
#ifndef GPULEAK_BLOCKS_TABLE_H
#define GPULEAK_BLOCKS_TABLE_H

#include <stddef.h>

#include "interpose/block/call.h"
#include "interpose/block/error_record.h"
#include "interpose/block/refcount_history.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/base/hash.h"
#include "ledger/shared.h"

/* One address or handle that a driver handed out. */
struct entry {
	uint64_t key; /* address and space, see key_of() */
	struct ledger_block *block; /* live, or NULL */
	struct ledger_block *deferred; /* released, but the driver still has its memory; or NULL */
	uint64_t watched;           /* the driver's name for the block when it reports its end */
	struct block_hint *hint;  /* if the block is or was the pool's; or NULL */
	struct past *past;          /* two generations, newest first; NULL until the first free */
	uint64_t span; /* bytes of address space; in VMM another block may own the memory */
	struct entry *older, *newer; /* among the dead */
	UT_hash_handle hh;
};

/* ---- numbers ---- */

/* No address uses the upper four bits, and no handle of SPACE_OF_KIND the upper eight. */
static inline uint64_t key_in(unsigned int space, uint64_t address)
{
	return address ^ (uint64_t)space << 56;
}

/* Returns the first of the spaces of kinds for each of them. */
static inline unsigned int space_of(uint64_t key)
{
	return (unsigned int)(key >> 60) * SPACE_STEP;
}

static inline uint64_t key_of_object(enum api api, uint64_t handle)
{
	return key_in(SPACE_OBJECTS + (unsigned int)api * SPACE_STEP, handle);
}

static inline uint64_t key_of(const struct call *call, uint64_t address)
{
	return call->space == SPACE_OBJECTS ? key_of_object(call->hook->api, address)
					    : key_in(call->space, address);
}

static inline struct shard *shard_of(struct recorder *recorder, uint64_t key)
{
	return &recorder->blocks->shard[TABLE_MIX(key) >> 57];
}
_Static_assert(SPACE_END <= 256, "key_in has eight bits");
_Static_assert(BLOCK_SHARDS == 128, "shard_of takes seven bits");

/* ---- entries; with the shard's lock ---- */

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

/* ---- blocks ---- */

static inline void count_in_site(struct recorder *recorder, uint32_t site_ref, size_t field,
				 uint64_t by)
{
	uint8_t *site = ledger_at(&recorder->writer, site_ref);

	atomic_fetch_add_explicit(&SHARED(*(uint64_t *)(void *)(site + field)), by,
				  memory_order_relaxed);
}

/* Copies the live block with KEY to *RET, see entry_tell(). Returns its name in the ledger, or 0.
 * */
uint64_t block_live_name(struct recorder *recorder, uint64_t key, struct ledger_block *ret);
/* The same, but returns true if there is such a block. */
bool block_live(struct recorder *recorder, uint64_t key, struct ledger_block *ret);

/* ---- free_errors.c ---- */

/* Records the error of a free that the driver refused, and whose address or handle has no live
 * block in the table. */
void free_error_judge(struct recorder *recorder, struct hook *hook, const struct freeing *freeing,
		      int result);
/* The same when the driver did not look at the block, because the current context is gone: records
 * an error only if the block ended with its context. */
void free_error_judge_late(struct recorder *recorder, struct hook *hook,
			   const struct freeing *freeing, int result);
/* The driver refused HOOK's call for BLOCK, a copy of the block that was put back. Records an error
 * if the call was for another kind. Returns true if the reason is unknown. */
bool free_error_refused(struct recorder *recorder, struct hook *hook,
			const struct freeing *freeing, const struct ledger_block *block,
			enum outcome outcome, int result);
/* The driver refused HOOK's call because of a live block that MISUSE names. */
void free_error_misused(struct recorder *recorder, struct hook *hook,
			const struct freeing *freeing, const struct misuse *misuse, int result);
/* Before and after the driver's call that releases a handle. An error that does not depend on the
 * driver's answer is recorded before the call and kept in FREEING->error, because the driver may
 * crash. The answer completes the record or retracts it. */
void free_error_before_release(struct recorder *recorder, const struct call *call,
			  struct freeing *freeing);
void free_error_after_release(const struct hook *hook, struct freeing *freeing,
			      enum outcome outcome, int result);

#endif
