/* SPDX-License-Identifier: MIT
 *
 * The table from addresses to blocks, and the records of blocks. Readers take no lock. So the
 * memory of a record is never used for anything but a record. The table changes only when blocks
 * are allocated from the driver or returned to it. Must not access the memory of a block.
 */
#include "interpose/cuda/pool/pool_internal.h"

#define FIRST_SLOTS 1024u
#define BLOCK_SLAB 4096u

/* Open addressing. If a slot's block is removed, its key stays until another key needs the slot. */
struct pool_map_table {
	uint64_t mask;
	uint64_t used;
	struct {
		_Atomic uint64_t key;
		_Atomic(struct pool_block *) block;
	} slot[];
};

static uint64_t map_index(const struct pool_map_table *table, uint64_t key)
{
	return TABLE_MIX(key) >> 24 & table->mask;
}

static HOT struct pool_block *map_lookup(struct pool *pool, uint64_t address)
{
	struct pool_map_table *table = atomic_load_explicit(&pool->map.table,
							    memory_order_acquire);
	struct pool_block *block;
	uint64_t key;

	if (!table || !address)
		return NULL;
	for (uint64_t at = map_index(table, address);; at = (at + 1) & table->mask) {
		key = atomic_load_explicit(&table->slot[at].key, memory_order_acquire);
		if (key == address) {
			block = atomic_load_explicit(&table->slot[at].block, memory_order_acquire);
			/* Another address may have reused the slot just now. */
			return block && block->address == address ? block : NULL;
		}
		if (!key)
			return NULL;
	}
}

struct pool_block *pool_map_lookup(struct pool *pool, uint64_t address)
{
	return map_lookup(pool, address);
}

HOT_CALL struct block_hint *pool_block_hint(struct recorder *recorder, uint64_t address)
{
	struct pool *pool = atomic_load_explicit(&recorder->pool, memory_order_acquire);
	struct pool_block *block = pool ? map_lookup(pool, address) : NULL;

	return block ? &block->hint : NULL;
}

/* Locking: needs the map's lock. Stores BLOCK under KEY, which has at most one slot. */
static void map_store(struct pool_map_table *table, uint64_t key, struct pool_block *block)
{
	uint64_t at = map_index(table, key), dead = UINT64_MAX, found;

	while ((found = atomic_load_explicit(&table->slot[at].key, memory_order_relaxed)) != 0 &&
	       found != key) {
		if (dead == UINT64_MAX &&
		    !atomic_load_explicit(&table->slot[at].block, memory_order_relaxed))
			dead = at;
		at = (at + 1) & table->mask;
	}
	if (!found && !block)
		return;
	if (!found && dead == UINT64_MAX)
		table->used++;
	else if (!found)
		at = dead;
	if (!found)
		atomic_store_explicit(&table->slot[at].key, key, memory_order_release);
	atomic_store_explicit(&table->slot[at].block, block, memory_order_release);
}

/* Readers may still use the old table, so it stays mapped. All old tables together are smaller than
 * the new one, unless it grew because of keys whose blocks were removed. */
static struct pool_map_table *map_grow(struct pool *pool, struct pool_map_table *old)
{
	struct pool_map_table *table;
	struct pool_block *block;
	uint64_t live = 0, slots = FIRST_SLOTS;

	for (uint64_t i = 0; old && i <= old->mask; i++)
		live += atomic_load_explicit(&old->slot[i].block, memory_order_relaxed) != NULL;
	while (slots < live * 4)
		slots *= 2;
	if (old && slots <= old->mask)
		slots = old->mask + 1;
	table = arena_take(pool->arena, sizeof(*table) + slots * sizeof(table->slot[0]));
	if (!table)
		return NULL;
	table->mask = slots - 1;
	for (uint64_t i = 0; old && i <= old->mask; i++) {
		block = atomic_load_explicit(&old->slot[i].block, memory_order_relaxed);
		if (block)
			map_store(table, block->address, block);
	}
	atomic_store_explicit(&pool->map.table, table, memory_order_release);
	return table;
}

bool pool_map_insert(struct pool *pool, struct pool_block *block)
{
	struct pool_map_table *table;

	HOLD(&pool->map.lock);
	table = atomic_load_explicit(&pool->map.table, memory_order_relaxed);
	if (!table || table->used * 2 > table->mask)
		table = map_grow(pool, table);
	if (table)
		map_store(table, block->address, block);
	return table != NULL;
}

void pool_map_remove(struct pool *pool, struct pool_block *block)
{
	struct pool_map_table *table;

	HOLD(&pool->map.lock);
	table = atomic_load_explicit(&pool->map.table, memory_order_relaxed);
	if (table && pool_map_lookup(pool, block->address) == block)
		map_store(table, block->address, NULL);
}

/* A thread whose free runs concurrently with the end of the context may still use one of these
 * records. They are used again only after the next context has ended. */
void pool_map_drop(struct pool *pool, struct pool_context *context)
{
	struct pool_map_table *table;
	struct pool_block *block, *dead, *next, *gone = NULL;

	lock_take(&pool->map.lock);
	table = atomic_load_explicit(&pool->map.table, memory_order_relaxed);
	for (uint64_t i = 0; table && i <= table->mask; i++) {
		block = atomic_load_explicit(&table->slot[i].block, memory_order_relaxed);
		if (!block || block->space->context != context)
			continue;
		atomic_store_explicit(&table->slot[i].block, NULL, memory_order_release);
		atomic_store(&block->state, POOL_SPARE);
		block->next = gone;
		gone = block;
	}
	lock_give(&pool->map.lock);
	pool_native_free_outlived(gone);
	lock_take(&pool->map.lock);
	dead = pool->dead;
	pool->dead = gone;
	lock_give(&pool->map.lock);
	for (; dead; dead = next) {
		next = dead->next;
		pool_block_recycle(pool, dead);
	}
}

struct pool_block *pool_block_new(struct pool *pool)
{
	struct pool_block *block, *more;

	lock_take(&pool->spare_lock);
	block = pool->spare;
	if (!block && (more = arena_take(pool->arena, BLOCK_SLAB))) {
		for (size_t i = 0; i < BLOCK_SLAB / sizeof(*more); i++) {
			more[i].next = pool->spare;
			pool->spare = &more[i];
		}
		block = pool->spare;
	}
	if (block)
		pool->spare = block->next;
	lock_give(&pool->spare_lock);
	if (block) {
		block->next = block->previous = NULL;
		block->owner = NULL;
	}
	return block;
}

void pool_block_recycle(struct pool *pool, struct pool_block *block)
{
	atomic_store(&block->state, POOL_SPARE);
	block->slab = NULL;
	block->never_reuse = 0;
	shared_store(block->hint.entry, NULL);
	atomic_store_explicit(&block->hint.recorded, false, memory_order_relaxed);
	HOLD(&pool->spare_lock);
	block->next = pool->spare;
	pool->spare = block;
}
