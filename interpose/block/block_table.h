/* SPDX-License-Identifier: MIT
 *
 * The table of blocks: keys, shards and entries, for the files of this folder that read or change
 * it. The functions that a pair of calls on linear memory passes through are inline here. A shard's
 * lock is held only for table work, never while unwinding, writing stacks or calling out.
 */
#ifndef GPULEAK_BLOCKS_TABLE_H
#define GPULEAK_BLOCKS_TABLE_H

#include <stddef.h>

#include "interpose/block/blocks.h"
#include "interpose/block/error_record.h"
#include "interpose/block/refcount_history.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/base/hash.h"

/* One address or handle that a driver handed out. */
struct entry {
	uint64_t key; /* with its space, see key_of() */
	struct ledger_block *block; /* live, or NULL */
	struct ledger_block *held;  /* released, but its memory is not freed; in no death list */
	uint64_t watched;           /* the driver will say with this when the block is gone */
	struct standing *standing;  /* of a block that is the pool's, or was; or NULL */
	struct past *past;          /* two generations, newest first; NULL until the first free */
	uint64_t span; /* of the addresses that it takes; its bytes may be another's (VMM) */
	struct entry *older, *newer; /* among the dead */
	UT_hash_handle hh;
};

/* ---- numbers ---- */

/* No address uses the upper four bits. */
static inline uint64_t key_in(unsigned int space, uint64_t address)
{
	return address ^ (uint64_t)space << 60;
}

static inline unsigned int space_of(uint64_t key)
{
	return (unsigned int)(key >> 60);
}

static inline uint64_t key_of_object(enum api api, uint64_t handle)
{
	return key_in(SPACE_OBJECTS + api, handle);
}

static inline uint64_t key_of(const struct site *site, uint64_t address)
{
	return site->space == SPACE_OBJECTS ? key_of_object(site->hook->api, address)
					    : key_in(site->space, address);
}

static inline struct shard *shard_of(struct recorder *recorder, uint64_t key)
{
	return &recorder->blocks->shard[table_mix(key) >> 57];
}
_Static_assert(SPACE_COUNT <= 16, "key_in has four bits");
_Static_assert(BLOCK_SHARDS == 128, "shard_of takes seven bits");

/* ---- entries; with the shard's lock ---- */

/* For tests that count. */
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

/* Whether ENTRY, which was KEY's once or is NULL, still is. An entry stays with its shard, and one
 * that left the table has no key: so any may be asked, with the lock of KEY's shard. */
static HOT bool entry_is(const struct entry *entry, uint64_t key)
{
	return entry && __atomic_load_n(&entry->key, __ATOMIC_RELAXED) == key;
}

/* As entry_find(). HINT was KEY's once, or is NULL: see entry_is(). */
static HOT struct entry *entry_known(struct shard *shard, uint64_t key, struct entry *hint)
{
	return entry_is(hint, key) ? hint : entry_find(shard, key);
}

/* What may be the entry for the address that STANDING or NULL is of: see entry_is(). */
static HOT struct entry *standing_entry(const struct standing *standing)
{
	return standing ? __atomic_load_n(&standing->entry, __ATOMIC_RELAXED) : NULL;
}

/* SHARD, and ENTRY in it or NULL, will be needed once the call's stack is known, which takes as
 * long as to fetch them: where much else is done between two calls they are in no cache. */
static HOT void entry_soon(struct shard *shard, struct entry *entry)
{
	SOON_WRITTEN(shard);
	if (entry) {
		SOON_WRITTEN(entry);
		SOON_WRITTEN(&entry->newer); /* its second line */
	}
}

/* BLOCK as an error tells of it: as large as the addresses that it takes. */
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
	if (entry && (entry->block || entry->held)) {
		*ret_stale = entry->block ? entry->block : entry->held;
		entry->block = entry->held = NULL;
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
		entry->past[0].row = block->row;
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

/* ---- an entry and its lock ---- */

/* KEY's entry, or NULL, with its shard's lock taken. If its block has ABOVE references or
 * more and no history yet, *RET_SPARE is one for it: taken without the lock, as the ledger
 * may have to grow. */
static HOT struct entry *entry_lock(struct recorder *recorder, struct shard *shard,
				       uint64_t key, struct entry *hint, uint32_t above,
				       struct ledger_history **ret_spare)
{
	struct entry *entry;

	*ret_spare = NULL;
	lock_take(&shard->lock);
	entry = entry_known(shard, key, hint);
	if (__builtin_expect(!entry || !entry->block || entry->block->history ||
				     entry->block->references < above,
			     1))
		return entry;
	lock_give(&shard->lock);
	*ret_spare = history_take(recorder);
	lock_take(&shard->lock);
	return entry_find(shard, key);
}

static inline void entry_unlock(struct recorder *recorder, struct shard *shard,
				struct ledger_history *spare)
{
	lock_give_soon(&shard->lock);
	if (spare)
		history_give(recorder, spare);
}

/* ---- blocks ---- */

/* As stack_here(). */
static HOT uint32_t stack_of(struct recorder *recorder, struct stripe *stripe,
			     const struct caller *caller)
{
	return recorder->stack_depth ? stack_here(recorder, stripe, caller) : 0;
}

/* Where a call comes from: a ref. */
static inline uint32_t origin_of(struct recorder *recorder, const struct caller *caller)
{
	struct stripe *stripe = thread_self.stripe;
	uint32_t stack;

	stripe_lock(stripe);
	stack = stack_of(recorder, stripe, caller);
	stripe_unlock(stripe);
	return stack;
}

static inline void count_in_row(struct recorder *recorder, uint32_t row_ref, size_t field,
				uint64_t by)
{
	uint8_t *row = ledger_at(&recorder->writer, row_ref);

	__atomic_fetch_add((uint64_t *)(void *)(row + field), by, __ATOMIC_RELAXED);
}

/* Whether a live block has KEY; *RET is a copy, see entry_tell(). */
bool block_live(struct recorder *recorder, uint64_t key, struct ledger_block *ret);

/* ---- free_errors.c ---- */

/* The driver does not know the number that FREEING's call named, nor does the table. */
void wrong_free_judge(struct recorder *recorder, struct hook *hook, const struct freeing *freeing,
		      int result);
/* No answer as to the block, but it may be known to have ended with its context. */
void wrong_free_judge_late(struct recorder *recorder, struct hook *hook,
			   const struct freeing *freeing, int result);
/* The driver refused HOOK's call for BLOCK, a copy of one that is put back. True: for a reason
 * that is not known. */
bool wrong_free_refused(struct recorder *recorder, struct hook *hook,
			const struct freeing *freeing, const struct ledger_block *block,
			enum outcome outcome, int result);
/* The driver refused HOOK's call because of a live block that MISUSE names. */
void wrong_free_misused(struct recorder *recorder, struct hook *hook,
			const struct freeing *freeing, const struct misuse *misuse, int result);
/* Around the driver's call that releases a handle. What is wrong whatever it answers is
 * FREEING->error from before the call on; its answer completes that, or takes it back. */
void wrong_free_releasing(struct recorder *recorder, const struct site *site,
			  struct freeing *freeing);
void wrong_free_answered(const struct hook *hook, struct freeing *freeing, enum outcome outcome,
			 int result);

#endif
