/* SPDX-License-Identifier: MIT
 *
 * Slabs: native blocks whose parts are blocks of their own, for small requests
 * (GPULEAK_POOL_SLAB) and for any that fit into what was taken beforehand
 * (GPULEAK_POOL_PREALLOC). Owns which part is whose; the bookkeeping lies outside of the device.
 * Parts have no IPC handle of their own, so nothing is carved once memory is shared.
 */
#include "pool_parts.h"

#include "config.h"
#include "offsets.h"
#include "resolve.h"
#include "say.h"

#define UNIT POOL_SMALL_GRANULE
#define SLAB_BYTES ((uint64_t)32 << 20)
#define SLAB_FROM (1u << 20) /* larger requests are no business of small slabs */

struct pool_slab {
	struct pool_block *whole; /* CARVED */
	struct pool_slab *next;
	struct offsets offsets;
	bool early; /* taken beforehand: for any size, and not given back while it is wanted */
};

static _Atomic bool no_slabs;

void pool_no_slabs(void)
{
	atomic_store(&no_slabs, true);
}

/* Libraries whose business is to hand memory to other processes or to the network. */
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

static bool wanted(const struct pool_space *space)
{
	return space->kind == POOL_DEVICE && !atomic_load(&space->context->failed) &&
	       (config.pool_slab || config.pool_prealloc != OPTION_UNSET) &&
	       !atomic_load_explicit(&no_slabs, memory_order_relaxed);
}

/* ---- slabs; with the space's lock ---- */

/* As large as a block of its bin must be: once kept it may serve any request of that bin. */
static struct pool_block *carve(struct pool *pool, struct pool_slab *slab, uint64_t bytes)
{
	unsigned int bin = pool_bin_of(bytes);
	uint32_t units = (uint32_t)(pool_bytes_of_bin(bin) / UNIT), node, first;
	uint32_t align = bytes >= POOL_LARGE_FROM ? POOL_LARGE_GRANULE / UNIT : 1;
	struct pool_block *block;

	first = offsets_take(&slab->offsets, units, align, &node);
	if (first == OFFSETS_NONE)
		return NULL;
	block = pool_block_new(pool);
	if (!block) {
		offsets_give(&slab->offsets, node);
		return NULL;
	}
	block->address = slab->whole->address + (uint64_t)first * UNIT;
	block->capacity = (uint64_t)units * UNIT;
	block->bytes = bytes;
	block->bin = (uint16_t)bin; /* its capacity, if 1 MiB, would be the next one's request */
	block->space = slab->whole->space;
	block->slab = slab;
	block->node = node;
	block->ticket = 0;
	atomic_store(&block->state, POOL_LIVE);
	if (!pool_map_add(pool, block)) {
		offsets_give(&slab->offsets, node);
		pool_block_spare(pool, block);
		return NULL;
	}
	*offsets_note(&slab->offsets, node) = (uint64_t)(uintptr_t)block;
	return block;
}

static struct pool_block *from_slabs(struct pool *pool, struct pool_space *space, uint64_t bytes)
{
	struct pool_block *block = NULL;

	if (atomic_load(&space->context->failed)) /* what was given back may not be clean */
		return NULL;
	for (struct pool_slab *slab = space->slabs; slab && !block; slab = slab->next)
		if (slab->early || bytes <= SLAB_FROM)
			block = carve(pool, slab, bytes);
	return block;
}

/* ---- from the driver; without the lock ---- */

/* A native block for parts. What of it is no part's counts as kept. */
static struct pool_slab *new_slab(struct pool *pool, struct pool_space *space, uint64_t bytes,
				  bool early)
{
	void *real = pool_real(HOOK_cuMemAlloc_v2);
	struct pool_slab *slab = arena_take(pool->arena, sizeof(*slab));
	uint64_t capacity = pool_bytes_of_bin(pool_bin_of(bytes));
	uint32_t guard;

	if (shares_memory())
		pool_no_slabs();
	if (!slab || !real || atomic_load(&no_slabs) ||
	    !offsets_init(&slab->offsets, pool->arena, (uint32_t)(capacity / UNIT)))
		goto fail;
	atomic_fetch_add(&space->kept, (int64_t)capacity); /* first: it is never in use */
	slab->whole = pool_native_make(pool, space, real, pool_bin_of(bytes), capacity);
	if (!slab->whole) {
		atomic_fetch_sub(&space->kept, (int64_t)capacity);
		offsets_finish(&slab->offsets);
		goto fail;
	}
	slab->early = early;
	/* No part begins where the slab does: a stale free of it must not end all of it. */
	offsets_take(&slab->offsets, 1, 1, &guard);
	atomic_store(&slab->whole->state, POOL_CARVED);
	if (early)
		atomic_fetch_add(&space->early, (int64_t)capacity);
	lock_take(&space->lock);
	slab->next = space->slabs;
	space->slabs = slab;
	lock_give(&space->lock);
	return slab;
fail:
	if (slab)
		arena_give(pool->arena, slab, sizeof(*slab));
	return NULL;
}

/* Once a context: what GPULEAK_POOL_PREALLOC asks for. */
static void prealloc(struct pool *pool, struct pool_space *space)
{
	uint64_t bytes = option_amount(config.pool_prealloc, space->context->total);

	if (!bytes || atomic_exchange(&space->context->prealloc_tried, true))
		return;
	if (bytes > POOL_BYTES_MAX || !new_slab(pool, space, bytes, true))
		say("gpuleak: GPULEAK_POOL_PREALLOC: the device has not that much free memory, or "
		    "memory is shared with others: nothing is taken beforehand\n",
		    NULL);
}

struct pool_block *pool_slab_take(struct pool *pool, struct pool_space *space, uint64_t bytes)
{
	struct pool_block *block;

	if (!wanted(space))
		return NULL;
	prealloc(pool, space);
	lock_take(&space->lock);
	block = from_slabs(pool, space, bytes);
	lock_give(&space->lock);
	if (!block && config.pool_slab && bytes <= SLAB_FROM &&
	    new_slab(pool, space, SLAB_BYTES, false)) {
		lock_take(&space->lock);
		block = from_slabs(pool, space, bytes);
		lock_give(&space->lock);
	}
	return block;
}

/* ---- given back ---- */

static void forget(struct pool *pool, struct pool_slab *slab)
{
	offsets_finish(&slab->offsets);
	arena_give(pool->arena, slab, sizeof(*slab));
}

void pool_slab_give(struct pool *pool, struct pool_block *block)
{
	struct pool_slab *slab = block->slab;
	struct pool_space *space = block->space;

	pool_map_remove(pool, block);
	lock_take(&space->lock);
	offsets_give(&slab->offsets, block->node);
	lock_give(&space->lock);
	pool_block_spare(pool, block);
}

bool pool_slab_find(struct pool *pool, const struct pool_block *base, uint64_t address,
		    struct pool_place *ret)
{
	struct pool_space *space = base->space;
	uint32_t first, units, node;
	struct pool_slab *slab;
	struct pool_block *block = NULL;

	(void)pool;
	*ret = (struct pool_place){ .address = address, .device = space->context->device,
				    .context = atomic_load(&space->context->handle) };
	lock_take(&space->lock);
	for (slab = space->slabs; slab && slab->whole != base; slab = slab->next)
		;
	if (slab && offsets_find(&slab->offsets, (uint32_t)((address - base->address) / UNIT),
				 &first, &units, &node))
		block = (struct pool_block *)(uintptr_t)*offsets_note(&slab->offsets, node);
	if (block) {
		ret->address = block->address;
		ret->bytes = block->bytes;
		ret->live = atomic_load(&block->state) == POOL_LIVE;
	}
	lock_give(&space->lock);
	return true;
}

/* An empty slab, out of the list; one that was taken beforehand only if ALL are wanted. */
static struct pool_slab *take_empty(struct pool_space *space, bool all)
{
	struct pool_slab **at, *slab;

	lock_take(&space->lock);
	for (at = &space->slabs; (slab = *at) != NULL; at = &slab->next)
		if ((all || !slab->early) &&
		    offsets_free_units(&slab->offsets) + 1 == slab->offsets.units)
			break;
	if (slab)
		*at = slab->next;
	lock_give(&space->lock);
	return slab;
}

uint64_t pool_slabs_trim(struct pool *pool, struct pool_space *space, bool all)
{
	struct pool_slab *slab;
	uint64_t given = 0;

	while (space->slabs && !atomic_load(&space->context->failed) &&
	       (slab = take_empty(space, all)) != NULL) {
		int64_t capacity = (int64_t)slab->whole->capacity;

		if (!pool_native_return(pool, slab->whole)) {
			lock_take(&space->lock);
			slab->next = space->slabs;
			space->slabs = slab;
			lock_give(&space->lock);
			break;
		}
		given += (uint64_t)capacity;
		atomic_fetch_sub(&space->kept, capacity);
		if (slab->early)
			atomic_fetch_sub(&space->early, capacity);
		forget(pool, slab);
	}
	return given;
}

/* A thread that frees beside the end of the context may still hold one: see pool_map_drop(). */
void pool_slabs_drop(struct pool *pool, struct pool_space *space)
{
	struct pool_slab *slab, *next, *dead;

	if (space->kind != POOL_DEVICE)
		return;
	lock_take(&pool->making);
	dead = pool->dead_slabs;
	lock_take(&space->lock);
	pool->dead_slabs = space->slabs;
	space->slabs = NULL;
	lock_give(&space->lock);
	lock_give(&pool->making);
	for (slab = dead; slab; slab = next) {
		next = slab->next;
		forget(pool, slab);
	}
}
