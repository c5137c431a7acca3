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
	static const char *const libraries[] = {
		"libmpi.so", "libucp.so", "libnccl.so", "libnvshmem_host.so", "libfabric.so",
	};
	static _Atomic int known;

	if (!atomic_load(&known))
		atomic_store(&known, 1 + (resolve_any_loaded(libraries,
							     sizeof(libraries) /
								     sizeof(libraries[0]))
						  ? 1
						  : 0));
	return atomic_load(&known) == 2;
}

static bool wanted(const struct pool_space *space)
{
	return space->kind == POOL_DEVICE &&
	       (config.pool_slab || config.pool_prealloc != OPTION_UNSET) &&
	       !atomic_load_explicit(&no_slabs, memory_order_relaxed);
}

/* ---- slabs; with the space's lock unless said otherwise ---- */

static struct pool_block *carve(struct pool *pool, struct pool_slab *slab, uint64_t bytes)
{
	uint32_t units = (uint32_t)((bytes + UNIT - 1) / UNIT), node, first;
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
	block->bin = (uint16_t)pool_bin_of(block->capacity);
	block->space = slab->whole->space;
	block->slab = slab;
	block->node = node;
	block->ticket = 0;
	atomic_store(&block->state, POOL_KEPT);
	if (!pool_map_add(pool, block)) {
		offsets_give(&slab->offsets, node);
		pool_block_spare(pool, block);
		return NULL;
	}
	return block;
}

/* A native block for parts; without the lock, as it asks the driver. */
static struct pool_slab *new_slab(struct pool *pool, struct pool_space *space, uint64_t bytes,
				  bool early)
{
	void *real = pool_real(HOOK_cuMemAlloc_v2);
	struct pool_slab *slab = arena_take(pool->arena, sizeof(*slab));
	struct pool_block *whole = NULL;
	uint32_t guard;
	CUresult r;

	if (slab && real)
		whole = pool_native_take(pool, space, real, pool_bin_of(bytes), bytes, &r);
	if (!whole || !offsets_init(&slab->offsets, pool->arena,
				    (uint32_t)(whole->capacity / UNIT))) {
		if (whole)
			pool_native_give(pool, whole, NULL);
		if (slab)
			arena_give(pool->arena, slab, sizeof(*slab));
		return NULL;
	}
	slab->whole = whole;
	slab->early = early;
	/* No part begins where the slab does: a stale free of it must not end all of it. */
	offsets_take(&slab->offsets, 1, 1, &guard);
	atomic_fetch_sub(&space->waste, (int64_t)(whole->capacity - whole->bytes));
	atomic_fetch_add(&space->kept, (int64_t)0);
	atomic_store(&whole->state, POOL_CARVED);
	return slab;
}

static bool fits(const struct pool_slab *slab, uint64_t bytes)
{
	return slab->early || bytes <= SLAB_FROM;
}

static struct pool_block *from_slabs(struct pool *pool, struct pool_space *space, uint64_t bytes)
{
	struct pool_block *block = NULL;

	lock_take(&space->lock);
	for (struct pool_slab *slab = space->slabs; slab && !block; slab = slab->next)
		if (fits(slab, bytes))
			block = carve(pool, slab, bytes);
	lock_give(&space->lock);
	return block;
}

static void add_slab(struct pool_space *space, struct pool_slab *slab)
{
	lock_take(&space->lock);
	slab->next = space->slabs;
	space->slabs = slab;
	lock_give(&space->lock);
}
