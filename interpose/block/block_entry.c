/* SPDX-License-Identifier: MIT
 *
 * Makes, forgets and revives entries of the table of blocks. Owns their memory. Every function
 * needs the lock of the entry's shard.
 */
#include "interpose/block/block_table.h"

#include <string.h>

#define ENTRY_SLAB 4096u
#define BUCKETS_SMALLEST 8u

const struct space_traits spaces[SPACE_OBJECT] = {
	[SPACE_MEMORY] = { .addresses = true, .linear = true, .contains = true },
	[SPACE_REGISTERED] = { .addresses = true },
#define SPACE(name, ...) [SPACE_##name] = { __VA_ARGS__ },
#include "interpose/dispatch/hooks.def"
};

/* Stores atomically, because other threads read the key without the shard's lock, if they have an
 * outdated hint: see entry_is(). */
static void set_key(struct entry *entry, uint64_t key)
{
	shared_store(entry->key, key);
}

static COLD struct entry *take_entry(struct arena *arena, struct shard *shard)
{
	struct entry *entry = shard->spare;

	if (!entry) {
		struct entry *slab = arena_take(arena, ENTRY_SLAB);

		for (size_t i = 0; slab && i < ENTRY_SLAB / sizeof(*slab); i++) {
			slab[i].older = shard->spare;
			shard->spare = &slab[i];
		}
		entry = shard->spare;
	}
	if (entry) {
		shard->spare = entry->older;
		memset(&entry->next, 0, sizeof(*entry) - offsetof(struct entry, next));
	}
	return entry;
}

/* ---- chains ---- */

struct entry *entry_after(const struct shard *shard, const struct entry *entry)
{
	uint32_t next = 0;

	if (entry && entry->next)
		return entry->next;
	if (entry)
		next = (uint32_t)(entry_bucket(shard, entry->key) - shard->bucket) + 1;
	while (next < shard->buckets && !shard->bucket[next])
		next++;
	return next < shard->buckets ? shard->bucket[next] : NULL;
}

static void chain(struct shard *shard, struct entry *entry)
{
	struct entry **bucket = entry_bucket(shard, entry->key);

	entry->next = *bucket;
	*bucket = entry;
}

static void unchain(struct shard *shard, struct entry *entry)
{
	struct entry **at = entry_bucket(shard, entry->key);

	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
}

/* Gives SHARD twice as many buckets once its chains have two entries on average. If memory is
 * short, the chains grow instead. */
static void widen(struct arena *arena, struct shard *shard)
{
	struct shard wide = { .buckets = shard->buckets ? 2 * shard->buckets : BUCKETS_SMALLEST };
	struct entry *entry, *next;

	if (shard->entries < 2 * shard->buckets)
		return;
	wide.bucket = arena_take(arena, wide.buckets * sizeof(struct entry *));
	if (!wide.bucket)
		return;
	for (uint32_t i = 0; i < shard->buckets; i++)
		for (entry = shard->bucket[i]; entry; entry = next) {
			next = entry->next;
			chain(&wide, entry);
		}
	if (shard->bucket)
		arena_give(arena, shard->bucket, shard->buckets * sizeof(struct entry *));
	shard->bucket = wide.bucket;
	shard->buckets = wide.buckets;
}

COLD void entry_forget(struct arena *arena, struct shard *shard, struct entry *entry)
{
	unchain(shard, entry);
	shard->entries--;
	if (entry->past)
		arena_give(arena, entry->past, 2 * sizeof(*entry->past));
	set_key(entry, 0);
	memset(&entry->next, 0, sizeof(*entry) - offsetof(struct entry, next));
	entry->older = shard->spare;
	shard->spare = entry;
}

COLD struct entry *entry_new(struct arena *arena, struct shard *shard, uint64_t key)
{
	struct entry *entry;

	widen(arena, shard);
	entry = shard->buckets ? take_entry(arena, shard) : NULL;
	if (!entry)
		return NULL;
	set_key(entry, key);
	chain(shard, entry);
	shard->entries++;
	return entry;
}

void entry_revive(struct shard *shard, struct entry *entry, struct ledger_block *block,
		  uint64_t span, struct block_hint *hint)
{
	if (entry->deferred)
		entry->deferred = NULL;
	else
		entry_unlink_dead(shard, entry);
	entry->block = block;
	entry->span = span;
	entry->hint = hint;
	if (entry->past) {
		entry->past[0] = entry->past[1];
		memset(&entry->past[1], 0, sizeof(entry->past[1]));
	}
	ledger_block_set(block, LEDGER_BLOCK_LIVE);
}
