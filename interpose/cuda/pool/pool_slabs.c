/* SPDX-License-Identifier: MIT
 *
 * Slabs: native blocks whose parts are blocks of their own. They serve requests up to
 * GPULEAK_POOL_SLAB, and any request that fits into preallocated memory
 * (GPULEAK_POOL_PREALLOC). This file decides which part is in use; its data lies in host
 * memory. A part has no IPC handle of its own, so no part is carved once memory is shared.
 */
#include "interpose/cuda/pool/pool_internal.h"
#include "interpose/cuda/pool/pool_cache.h"

#include <string.h>

#include "interpose/base/config.h"
#include "interpose/base/range_allocator.h"
#include "interpose/base/message.h"

#define UNIT POOL_GRANULE
#define SLAB_BYTES ((uint64_t)16 << 20) /* minimum */
/* a new slab has at least 1/32 of the bytes of all slabs, so that growth needs few slabs */
#define SLAB_SHARE 32
#define PART_BYTES ((uint64_t)1 << 20) /* the largest request with GPULEAK_POOL_SLAB=1 */
#define COALESCE_SHARE 16	       /* see pool_slab_is_fragmented() */
#define FAILED_SCANS_MAX 8	       /* how often the number of scans to skip may double */
#define MANY_SLABS 256
#define ROWS 32 /* initial capacity */

struct pool_slab {
	struct pool_block *whole; /* the driver's block; its state is POOL_CARVED */
	struct pool_slab *next_dead;
	struct range_allocator range;
	unsigned int row; /* index in its space's array `slab` */
	uint32_t last_freed_s; /* when the part that was returned last was freed */
	bool preallocated; /* by GPULEAK_POOL_PREALLOC: serves any size, returned last */
};

/* An element of the space's array `slab`. Has copies of the fields that a search for free space
 * reads, so that the search touches few cache lines. */
struct pool_slab_row {
	struct pool_slab *slab;
	uint32_t largest; /* in units: see range_largest() */
	bool preallocated;
};

_Atomic bool pool_fine_bins READ_BY_ALL;
static _Atomic bool no_slabs;

void pool_no_slabs(void)
{
	atomic_store(&no_slabs, true);
}

/* Returns true if a library is loaded that shares memory with other processes or the network. */
static bool shares_memory(void)
{
	static const char *const names[] = {
		"libmpi", "libucp", "libnccl", "libnvshmem", "libfabric", "libnixl",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (resolve_is_loaded(names[i]))
			return true;
	return false;
}

static bool slabs_are_enabled(const struct pool_space *space)
{
	return space->kind == POOL_DEVICE && !atomic_load(&space->context->failed) &&
	       (config.pool_slab || config.pool_prealloc != OPTION_UNSET) &&
	       !atomic_load_explicit(&no_slabs, memory_order_relaxed);
}

/* Returns the largest request for which slabs are allocated. */
static uint64_t slab_part_max(void)
{
	return config.pool_slab == 1 ? PART_BYTES : (uint64_t)config.pool_slab;
}

void pool_slabs_init(void)
{
	atomic_store(&pool_fine_bins,
		     config.pool_prealloc != OPTION_UNSET || slab_part_max() > PART_BYTES);
}

/* ---- parts; Locking: need the space's lock ---- */

static void slab_update_row(struct pool_space *space, const struct pool_slab *slab)
{
	space->slab[slab->row].largest = range_largest(&slab->range);
}

/* Carves a part as large as its bin's blocks: once cached it may serve any request of that bin. */
static struct pool_block *slab_carve(struct pool *pool, struct pool_slab *slab, unsigned int bin,
				     uint64_t bytes)
{
	uint32_t units = (uint32_t)pool_units_of_bin(bin), node, first;
	struct pool_block *block;

	first = range_allocate(&slab->range, units, 1, &node);
	if (first == RANGE_NONE)
		return NULL;
	block = pool_block_new(pool);
	if (!block) {
		range_free(&slab->range, node);
		return NULL;
	}
	block->address = slab->whole->address + (uint64_t)first * UNIT;
	block->capacity = (uint64_t)units * UNIT;
	block->bytes = bytes;
	block->bin = (uint16_t)bin;
	block->space = slab->whole->space;
	block->slab = slab;
	block->node = node;
	block->fence = 0;
	atomic_store(&block->state, POOL_LIVE);
	if (!pool_map_insert(pool, block)) {
		range_free(&slab->range, node);
		pool_block_recycle(pool, block);
		return NULL;
	}
	*range_note(&slab->range, node) = (uint64_t)(uintptr_t)block;
	slab_update_row(block->space, slab);
	return block;
}

static bool slabs_are_usable(struct pool_space *space)
{
	return atomic_load_explicit(&space->slabs, memory_order_relaxed) &&
	       !atomic_load(&space->context->failed) && /* then some of it may not be clean */
	       !atomic_load_explicit(&no_slabs, memory_order_relaxed);
}

/* Returns the slab with the least sufficient space, so that the others stay free for larger
 * parts or become empty. If there are very many slabs, tries the newest first. */
static const struct pool_slab_row *slabs_find_room(struct pool_space *space, uint32_t units,
						   bool of_any)
{
	unsigned int slabs = atomic_load_explicit(&space->slabs, memory_order_relaxed);
	const struct pool_slab_row *row = space->slab, *end = row + slabs, *best = NULL;

	if (slabs > MANY_SLABS && of_any && end[-1].largest >= units)
		return &end[-1];
	for (; row < end; row++)
		if (row->largest >= units && (of_any || row->preallocated) &&
		    (!best || row->largest < best->largest))
			best = row;
	return best;
}

struct pool_block *pool_slab_carve(struct pool *pool, struct pool_space *space, unsigned int bin,
				   uint64_t bytes)
{
	uint64_t units = pool_units_of_bin(bin);
	const struct pool_slab_row *best;

	if (!slabs_are_usable(space) || units >= RANGE_NONE)
		return NULL;
	HOLD(&space->lock);
	best = slabs_find_room(space, (uint32_t)units, bytes <= slab_part_max());
	return best ? slab_carve(pool, best->slab, bin, bytes) : NULL;
}

/* Returns true if less than three quarters of the preallocated memory is in use. */
static bool prealloc_is_plenty(const struct pool_space *space)
{
	int64_t preallocated = atomic_load_explicit(&space->preallocated, memory_order_relaxed);

	return preallocated &&
	       atomic_load_explicit(&space->cached, memory_order_relaxed) > preallocated / 4;
}

bool pool_slab_is_fragmented(const struct pool_space *space, const struct pool_cache *cache,
			     uint64_t bytes)
{
	int64_t cached = atomic_load_explicit(&space->cached, memory_order_relaxed) + cache->cached;
	int64_t in_use = atomic_load_explicit(&space->reserved, memory_order_relaxed) - cached;

	if (bytes > slab_part_max() || !atomic_load_explicit(&space->slabs, memory_order_relaxed) ||
	    prealloc_is_plenty(space))
		return false;
	return cached > in_use / COALESCE_SHARE && cached < in_use;
}

bool pool_slab_fits(const struct pool_block *block, unsigned int bin)
{
	return !block->slab || block->bin == bin ||
	       (block->slab->preallocated && prealloc_is_plenty(block->space));
}

bool pool_slab_serves(const struct pool_block *block, uint64_t bytes)
{
	return block->slab && (bytes <= slab_part_max() || block->slab->preallocated);
}

void pool_slab_cut(struct pool_block *block, unsigned int bin)
{
	uint32_t units = (uint32_t)pool_units_of_bin(bin);

	if (block->capacity <= (uint64_t)units * UNIT ||
	    !range_shrink(&block->slab->range, block->node, units))
		return;
	block->capacity = (uint64_t)units * UNIT;
	block->bin = (uint16_t)bin;
	slab_update_row(block->space, block->slab);
}

static bool slab_insert_row(struct pool *pool, struct pool_space *space, struct pool_slab *slab)
{
	unsigned int slabs = atomic_load(&space->slabs), room = space->slabs_room;
	struct pool_slab_row *rows = space->slab;

	if (slabs == room) {
		rows = arena_take(pool->arena, (room ? 2 * room : ROWS) * sizeof(*rows));
		if (!rows)
			return false;
		if (room) {
			memcpy(rows, space->slab, slabs * sizeof(*rows));
			arena_give(pool->arena, space->slab, room * sizeof(*rows));
		}
		space->slab = rows;
		space->slabs_room = room ? 2 * room : ROWS;
	}
	slab->row = slabs;
	rows[slabs] = (struct pool_slab_row){ .slab = slab, .preallocated = slab->preallocated };
	slab_update_row(space, slab);
	atomic_store(&space->slabs, slabs + 1);
	if (!slab->preallocated)
		space->slab_bytes += slab->whole->capacity;
	return true;
}

static void slab_remove_row(struct pool_space *space, const struct pool_slab *slab)
{
	unsigned int slabs = atomic_load(&space->slabs) - 1;

	for (unsigned int i = slab->row; i < slabs; i++) {
		space->slab[i] = space->slab[i + 1];
		space->slab[i].slab->row = i;
	}
	atomic_store(&space->slabs, slabs);
	if (!slab->preallocated)
		space->slab_bytes -= slab->whole->capacity;
}

/* ---- slabs from the driver ---- */

static void slab_destroy(struct pool *pool, struct pool_slab *slab)
{
	range_finish(&slab->range);
	arena_give(pool->arena, slab, sizeof(*slab));
}

/* Returns the data of a slab of CAPACITY bytes. Returns NULL if memory is short, or if slabs are
 * off. */
static struct pool_slab *slab_create(struct pool *pool, uint64_t capacity)
{
	struct pool_slab *slab;

	if (shares_memory())
		pool_no_slabs();
	if (atomic_load(&no_slabs) || capacity / UNIT >= RANGE_NONE)
		return NULL;
	slab = arena_take(pool->arena, sizeof(*slab));
	if (slab && !range_init(&slab->range, pool->arena, (uint32_t)(capacity / UNIT))) {
		arena_give(pool->arena, slab, sizeof(*slab));
		slab = NULL;
	}
	return slab;
}

/* Locking: the caller must not hold the space's lock, because the driver's call may take long.
 * Returns SLAB, which is empty and not in the space's array of slabs, to the driver. Returns false
 * if the driver refused. */
static bool slab_return_native(struct pool *pool, struct pool_slab *slab)
{
	struct pool_space *space = slab->whole->space;
	int64_t capacity = (int64_t)slab->whole->capacity;

	if (!pool_native_return_slab(pool, slab->whole))
		return false;
	atomic_fetch_sub(&space->cached, capacity);
	if (slab->preallocated)
		atomic_fetch_sub(&space->preallocated, capacity);
	slab_destroy(pool, slab);
	return true;
}

/* Locking: takes the space's lock. Allocates a slab of CAPACITY bytes from the driver. Its unused
 * space counts as cached. */
static bool slab_alloc_native(struct pool *pool, struct pool_space *space, uint64_t capacity,
			      bool preallocated)
{
	void *real = CUDA_REAL(cuMemAlloc_v2);
	struct pool_slab *slab = real ? slab_create(pool, capacity) : NULL;
	uint32_t guard;
	bool done;

	if (!slab)
		return false;
	atomic_fetch_add(&space->cached, (int64_t)capacity); /* first: it is never in use */
	slab->whole = pool_native_alloc_slab(pool, space, real, capacity);
	if (!slab->whole) {
		atomic_fetch_sub(&space->cached, (int64_t)capacity);
		slab_destroy(pool, slab);
		return false;
	}
	slab->preallocated = preallocated;
	/* No part begins at the slab's address: a stale free of that address must not free the
	 * slab. */
	range_allocate(&slab->range, 1, 1, &guard);
	atomic_store(&slab->whole->state, POOL_CARVED);
	if (preallocated)
		atomic_fetch_add(&space->preallocated, (int64_t)capacity);
	lock_take(&space->lock);
	done = slab_insert_row(pool, space, slab);
	lock_give(&space->lock);
	if (!done)
		slab_return_native(pool, slab);
	return done;
}

/* Allocates the slab of GPULEAK_POOL_PREALLOC, at the first call in each context. Returns true if
 * this call allocated it. */
static bool slab_preallocate(struct pool *pool, struct pool_space *space)
{
	uint64_t bytes = option_amount(config.pool_prealloc, space->context->total);

	if (!bytes || atomic_exchange(&space->context->prealloc_tried, true))
		return false;
	if (bytes <= POOL_BYTES_MAX &&
	    slab_alloc_native(pool, space, pool_round_large(bytes), true))
		return true;
	say("gpuleak: GPULEAK_POOL_PREALLOC: the device does not have that much free memory, or "
	    "a library shares memory with other processes: nothing is allocated in advance\n",
	    NULL);
	return false;
}

/* Allocates a slab with space for a part of BIN: a large one, or a minimal one if memory is
 * short. */
static bool slabs_grow(struct pool *pool, struct pool_space *space, unsigned int bin)
{
	uint64_t bytes = pool_bytes_of_bin(bin), least = pool_round_large(bytes + UNIT);
	uint64_t share = pool_round_large(atomic_load(&space->slab_bytes) / SLAB_SHARE);

	if (share < SLAB_BYTES)
		share = SLAB_BYTES;
	if (share > least && pool_may_allocate(pool, space, bytes, share - bytes) &&
	    slab_alloc_native(pool, space, share, false))
		return true;
	return pool_may_allocate(pool, space, bytes, least - bytes) &&
	       slab_alloc_native(pool, space, least, false);
}

/* If several threads find no space, one of them allocates a slab for all. */
static struct pool_block *slab_carve_new(struct pool *pool, struct pool_space *space,
					 unsigned int bin, uint64_t bytes)
{
	unsigned int slabs = atomic_load(&space->slabs);
	struct pool_block *block = NULL;

	HOLD(&space->growing);
	if (atomic_load(&space->slabs) != slabs)
		block = pool_slab_carve(pool, space, bin, bytes);
	if (!block && slabs_grow(pool, space, bin))
		block = pool_slab_carve(pool, space, bin, bytes);
	return block;
}

/* Returns true if the caller should search other threads' caches for free parts. Such a search
 * interrupts these threads. After each search in a row that found no part, more searches are
 * skipped. */
static bool slabs_may_scan_caches(struct pool *pool, struct pool_space *space,
				  const struct pool_cache *cache, uint64_t bytes)
{
	uint32_t skip = atomic_load(&space->skip_scans);

	if (pool_or_zero(atomic_load(&space->cached)) < bytes ||
	    !pool_cache_others_have(pool, space, cache))
		return false;
	if (skip)
		atomic_store(&space->skip_scans, skip - 1);
	return !skip;
}

static void slabs_note_scan(struct pool_space *space, bool failed)
{
	uint32_t failed_scans = failed ? atomic_load(&space->failed_scans) + 1 : 0;

	atomic_store(&space->failed_scans,
		     failed_scans < FAILED_SCANS_MAX ? failed_scans : FAILED_SCANS_MAX);
	atomic_store(&space->skip_scans, ((uint32_t)1 << atomic_load(&space->failed_scans)) - 1);
}

/* Coalesces cached parts that are adjacent, then carves a part. Returns NULL if no space is
 * large enough. */
static struct pool_block *slabs_coalesce(struct pool *pool, struct pool_space *space,
					 struct pool_cache *cache, unsigned int bin, uint64_t bytes)
{
	struct pool_block *block = NULL;

	if (pool_cache_coalesce(pool, space, cache, 0))
		block = pool_slab_carve(pool, space, bin, bytes);
	if (block || !slabs_may_scan_caches(pool, space, cache, bytes))
		return block;
	pool_cache_collect(pool, space);
	if (pool_cache_coalesce(pool, space, NULL, 0))
		block = pool_slab_carve(pool, space, bin, bytes);
	slabs_note_scan(space, !block);
	return block;
}

struct pool_block *pool_slab_alloc(struct pool *pool, struct pool_space *space,
				   struct pool_cache *cache, unsigned int bin, uint64_t bytes)
{
	struct pool_block *block = NULL;

	if (!slabs_are_enabled(space))
		return NULL;
	if (slabs_are_usable(space) &&
	    (bytes <= slab_part_max() || atomic_load(&space->preallocated))) {
		block = pool_cache_remove_larger(space, cache, bin, bytes);
		if (!block)
			block = slabs_coalesce(pool, space, cache, bin, bytes);
	}
	if (!block && slab_preallocate(pool, space))
		block = pool_slab_carve(pool, space, bin, bytes);
	return block || bytes > slab_part_max() ? block : slab_carve_new(pool, space, bin, bytes);
}

/* ---- return ---- */

void pool_slab_return_locked(struct pool *pool, struct pool_block *block)
{
	struct pool_slab *slab = block->slab;
	struct pool_space *space = block->space;

	pool_map_remove(pool, block);
	range_free(&slab->range, block->node);
	slab_update_row(space, slab);
	if (block->freed_s > slab->last_freed_s)
		slab->last_freed_s = block->freed_s;
	pool_block_recycle(pool, block);
}

void pool_slab_return(struct pool *pool, struct pool_block *block)
{
	struct pool_space *space = block->space;

	HOLD(&space->lock);
	pool_slab_return_locked(pool, block);
}

bool pool_slab_lookup(struct pool *pool, const struct pool_block *base, uint64_t address,
		      struct pool_place *ret)
{
	struct pool_space *space = base->space;
	uint32_t first, units, node;
	struct pool_slab *slab = NULL;
	struct pool_block *block = NULL;

	(void)pool;
	*ret = (struct pool_place){ .address = address, .device = space->context->device,
				    .context = atomic_load(&space->context->handle) };
	HOLD(&space->lock);
	for (unsigned int i = 0; i < atomic_load(&space->slabs) && !slab; i++)
		if (space->slab[i].slab->whole == base)
			slab = space->slab[i].slab;
	if (slab && range_lookup(&slab->range, (uint32_t)((address - base->address) / UNIT), &first,
				 &units, &node))
		block = (struct pool_block *)(uintptr_t)*range_note(&slab->range, node);
	if (block) {
		ret->address = block->address;
		ret->bytes = block->bytes;
		ret->live = atomic_load(&block->state) == POOL_LIVE;
	}
	return true;
}

/* Removes an empty slab from the table and returns it, or NULL. */
static struct pool_slab *slabs_remove_empty(struct pool_space *space, uint32_t before_s, bool all)
{
	HOLD(&space->lock);
	for (unsigned int i = atomic_load(&space->slabs); i-- > 0;) {
		struct pool_slab *slab = space->slab[i].slab;

		if ((slab->preallocated && !all) || slab->last_freed_s >= before_s ||
		    space->slab[i].largest + 1 != slab->range.units)
			continue;
		slab_remove_row(space, slab);
		return slab;
	}
	return NULL;
}

uint64_t pool_slabs_trim(struct pool *pool, struct pool_space *space, uint64_t bytes,
			 uint32_t before_s, bool all)
{
	struct pool_slab *slab;
	uint64_t returned = 0;

	while (returned < bytes && atomic_load(&space->slabs) &&
	       !atomic_load(&space->context->failed) &&
	       (slab = slabs_remove_empty(space, before_s, all)) != NULL) {
		uint64_t capacity = slab->whole->capacity;

		if (!slab_return_native(pool, slab)) {
			lock_take(&space->lock);
			slab_insert_row(pool, space, slab); /* the row is still there */
			lock_give(&space->lock);
			break;
		}
		returned += capacity;
		pools_count_trimmed(space->record, 1, capacity);
	}
	return returned;
}

/* A thread whose free runs concurrently may still use these records: see pool_map_drop(). */
void pool_slabs_drop(struct pool *pool, struct pool_space *space)
{
	struct pool_slab *slab, *next;

	if (space->kind != POOL_DEVICE)
		return;
	HOLD(&pool->making);
	for (slab = pool->dead_slabs; slab; slab = next) {
		next = slab->next_dead;
		slab_destroy(pool, slab);
	}
	pool->dead_slabs = NULL;
	lock_take(&space->lock);
	for (unsigned int i = 0; i < atomic_load(&space->slabs); i++) {
		space->slab[i].slab->next_dead = pool->dead_slabs;
		pool->dead_slabs = space->slab[i].slab;
	}
	atomic_store(&space->slabs, 0);
	space->slab_bytes = 0;
	lock_give(&space->lock);
}
