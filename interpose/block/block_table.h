/* SPDX-License-Identifier: MIT
 *
 * The table of blocks from inside, for the files that work on its entries: blocks.c, which
 * owns them, free_errors.c, free_race.c, refcount.c and deferred_free.c. What a pair of calls on
 * linear memory passes through is inline here or static in blocks.c. A shard's lock is held only
 * for table work, never while unwinding, writing stacks or calling out.
 */
#ifndef GPULEAK_BLOCKS_TABLE_H
#define GPULEAK_BLOCKS_TABLE_H

#include "interpose/block/blocks.h"
#include "interpose/block/refcount_history.h"
#include "interpose/recorder/recorder.h"
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
	return &recorder->blocks.shard[table_mix(key) >> 57];
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

/* Its live block is over, as ENDING tells, and becomes its past: the entry is among the dead. */
struct ledger_block *entry_die(struct arena *arena, struct shard *shard, struct entry *entry,
			       const struct past *ending);
/* ENTRY, in which no block is any more, is among the dead; the oldest of them may be
 * forgotten for it. */
void entry_link_dead(struct arena *arena, struct shard *shard, struct entry *entry);
/* The free failed, or the handle was retained again: as if it had not been tried. */
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

/* One reference of the block at ADDRESS goes; with the last one it leaves the table. What
 * became of it is in *RET. Returns the recorder, still entered, or NULL. */
struct recorder *block_take(const struct site *site, uint64_t address, struct freeing *ret);
/* It did not go after all. */
void block_put_back(struct recorder *recorder, const struct freeing *freeing);
/* BLOCK, of BYTES, is out of the table: its slot and its bytes go. */
void block_drop(struct recorder *recorder, struct ledger_block *block, int64_t bytes);
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
/* Around the driver's call that releases a handle. What is wrong whatever it answers is
 * FREEING->error from before the call on; its answer completes that, or takes it back. */
void wrong_free_releasing(struct recorder *recorder, const struct site *site,
			  struct freeing *freeing);
void wrong_free_answered(const struct hook *hook, struct freeing *freeing, enum outcome outcome,
			 int result);

/* ---- refcount.c; with the shard's lock ---- */

/* EVENT goes into BLOCK's history; if it has none, *SPARE (see entry_lock()) becomes it.
 * Returns what history_remove() takes. */
uint32_t references_note(struct recorder *recorder, struct ledger_block *block,
			 struct ledger_history **spare, const struct ledger_reference *event);
/* One of several references of BLOCK goes. */
void references_count_down(struct recorder *recorder, struct ledger_block *block,
			   struct ledger_history **spare, const struct past *ending,
			   struct freeing *ret);

/* ---- deferred_free.c ---- */

/* The watched block that FREEING released is still there, and nobody took it up again. */
bool waiting_is_held(const struct entry *entry, const struct freeing *freeing); /* with the lock */
bool waiting_is_there(struct recorder *recorder, const struct freeing *freeing);
/* After the last release of a watched block: either the driver said meanwhile that its memory
 * is gone, or it is still held, and the ledger says since when and by whose call. */
void waiting_settle(struct recorder *recorder, struct hook *hook, const struct freeing *freeing);

#endif
