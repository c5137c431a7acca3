/* SPDX-License-Identifier: MIT
 *
 * Makes, forgets and revives entries of the table of blocks. Owns their memory. Every function
 * needs the lock of the entry's shard.
 */
#include "interpose/block/block_table.h"

#include <string.h>

#define ENTRY_SLAB 4096u

const struct space_traits spaces[SPACE_OBJECT] = {
	[SPACE_MEMORY] = { .addresses = true, .linear = true },
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
		memset(&entry->block, 0, sizeof(*entry) - offsetof(struct entry, block));
	}
	return entry;
}

COLD void entry_forget(struct arena *arena, struct shard *shard, struct entry *entry)
{
	TABLE_REMOVE(arena, shard->entries, entry);
	if (entry->past)
		arena_give(arena, entry->past, 2 * sizeof(*entry->past));
	set_key(entry, 0);
	memset(&entry->block, 0, sizeof(*entry) - offsetof(struct entry, block));
	entry->older = shard->spare;
	shard->spare = entry;
}

COLD struct entry *entry_new(struct arena *arena, struct shard *shard, uint64_t key)
{
	struct entry *entry = take_entry(arena, shard);

	if (!entry)
		return NULL;
	set_key(entry, key);
	if (TABLE_ADD(arena, shard->entries, key, entry))
		return entry;
	set_key(entry, 0); /* no memory */
	entry->older = shard->spare;
	shard->spare = entry;
	return NULL;
}

void entry_revive(struct shard *shard, struct entry *entry, struct ledger_block *block)
{
	if (entry->deferred)
		entry->deferred = NULL;
	else
		entry_unlink_dead(shard, entry);
	entry->block = block;
	if (entry->past) {
		entry->past[0] = entry->past[1];
		memset(&entry->past[1], 0, sizeof(entry->past[1]));
	}
	ledger_block_set(block, LEDGER_BLOCK_LIVE);
}
