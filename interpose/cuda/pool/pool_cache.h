/* SPDX-License-Identifier: MIT
 *
 * The caches of freed blocks: a ring for each bin in each thread's cache, and shared bins in
 * the space. The inline functions are on the hot path. Unless a comment says otherwise, a
 * function takes the locks that it needs.
 */
#pragma once

#include "interpose/cuda/pool/pool_internal.h"
#include "interpose/cuda/pool/pool_fence.h"
#include "ledger/shared.h"

/* Take and release the lock of a cache: enter and leave on its own thread, seize and release on
 * any other thread. */
static HOT void pool_cache_enter(struct pool_cache *cache)
{
	owner_lock_take(&cache->lock, cache->single_thread);
}

static HOT void pool_cache_leave(struct pool_cache *cache)
{
	owner_lock_give(&cache->lock);
}

static inline void pool_cache_seize(struct pool_cache *cache)
{
	owner_lock_take_from(&cache->lock, cache->single_thread);
}

static inline void pool_cache_release(struct pool_cache *cache)
{
	owner_lock_give_back(&cache->lock);
}

/* Returns the calling thread's cache of SPACE. Returns NULL if memory is short. */
struct pool_cache *pool_cache_find(struct pool *pool, struct pool_space *space);
static inline struct pool_cache *pool_cache_here(struct pool *pool, struct pool_space *space)
{
	if (__builtin_expect(thread_self.pool_space == space, 1))
		return thread_self.pool_cache;
	return pool_cache_find(pool, space);
}

/* Returns AT modulo POOL_RING, for AT below 2 * POOL_RING. Does not divide: an allocation and its
 * free call this twice. */
static inline unsigned int pool_ring_at(unsigned int at)
{
	return at < POOL_RING ? at : at - POOL_RING;
}

static HOT void pool_ring_push(struct pool_ring *ring, struct pool_block *block)
{
	ring->block[pool_ring_at(ring->first + ring->count)] = block;
	shared_store(ring->count, (uint8_t)(ring->count + 1));
}

static HOT struct pool_block *pool_ring_pop(struct pool_ring *ring)
{
	struct pool_block *block = ring->block[ring->first];

	ring->first = (uint8_t)pool_ring_at(ring->first + 1u);
	shared_store(ring->count, (uint8_t)(ring->count - 1));
	return block;
}

/* Locking: needs the cache's lock. Removes the oldest block of BIN and returns it if it is clean.
 * Otherwise returns NULL and stores that block's fence; stores 0 if the bin is empty. */
static HOT struct pool_block *pool_cache_remove_own(const struct pool_context *context,
						    struct pool_cache *cache, unsigned int bin,
						    uint64_t *ret_pending)
{
	struct pool_ring *ring = &cache->ring[bin];
	struct pool_block *block = ring->count ? ring->block[ring->first] : NULL;

	*ret_pending = block ? block->fence : 0;
	return block && pool_is_clean_in(context, block) ? pool_ring_pop(ring) : NULL;
}
/* Call after pool_cache_remove_own() returned NULL. Moves the blocks of this thread that other
 * threads freed into CACHE, or into the shared bins if CACHE is full. Then searches CACHE like
 * pool_cache_remove_own(). Locking: enters CACHE, and takes the locks of the shared bins. */
struct pool_block *pool_cache_remove_returned(struct pool_space *space, struct pool_cache *cache,
					      unsigned int bin, uint64_t *ret_pending);
/* Returns the oldest block of BIN in the shared bins if it is clean, or NULL. Also returns NULL if
 * CACHE has few blocks of BIN: then another thread may need the shared ones. */
struct pool_block *pool_cache_remove_older(struct pool_space *space, struct pool_cache *cache,
					   unsigned int bin);
/* Returns a block of BIN or a slightly larger one: from CACHE, from the shared bins, as a part for
 * BYTES of unused space in slabs, or from other threads' caches. Returns NULL if none is found. */
struct pool_block *pool_cache_remove_any(struct pool *pool, struct pool_space *space,
					 struct pool_cache *cache, unsigned int bin,
					 uint64_t bytes);
/* Returns a part for BIN, cut from the smallest larger part for BYTES in CACHE or in the shared
 * bins, or NULL. */
struct pool_block *pool_cache_remove_larger(struct pool_space *space, struct pool_cache *cache,
					    unsigned int bin, uint64_t bytes);
/* Coalesces clean parts of the shared bins from FROM on, and of CACHE if it is not NULL. Returns
 * the bytes that returned to slabs. */
uint64_t pool_cache_coalesce(struct pool *pool, struct pool_space *space, struct pool_cache *cache,
			     unsigned int from);
/* Returns true if a cache other than OWN seems to have blocks. Takes no lock. */
bool pool_cache_others_have(struct pool *pool, struct pool_space *space,
			    const struct pool_cache *own);
/* Locking: this and the next three functions need the cache's lock. Marks that BIN has blocks. */
static HOT void pool_cache_mark_used(struct pool_cache *cache, unsigned int bin)
{
	uint64_t word = cache->used[bin / 64], bit = 1ull << bin % 64;

	if (__builtin_expect(!(word & bit), 0))
		shared_store(cache->used[bin / 64], word | bit);
}

/* Moves the oldest blocks of RING to the shared bins. Takes the space's lock. */
COLD void pool_cache_overflow(struct pool_space *space, struct pool_ring *ring);
/* Returns BLOCK to the cache of the thread that allocated it, without its lock: that thread will
 * allocate again. Returns false, and does nothing, if this thread recently lacked such blocks. */
bool pool_cache_return_to_owner(struct pool_ring *ring, struct pool_block *block);
/* Caches BLOCK, which the application has just freed. */
static HOT void pool_cache_insert(struct pool_cache *cache, struct pool_block *block)
{
	struct pool_ring *ring = &cache->ring[block->bin];

	if (__builtin_expect(block->owner != cache, 0) && block->owner &&
	    pool_cache_return_to_owner(ring, block))
		return;
	if (__builtin_expect(ring->count == POOL_RING, 0))
		pool_cache_overflow(block->space, ring);
	pool_ring_push(ring, block);
	pool_cache_mark_used(cache, block->bin);
}

/* Moves the blocks of all threads' caches to the shared bins of SPACE. */
void pool_cache_collect(struct pool *pool, struct pool_space *space);
/* Removes the block that was cached longest, of those that were freed before BEFORE_S; with CLEAN,
 * only a clean one. Returns NULL if no block qualifies. */
struct pool_block *pool_cache_remove_oldest(struct pool_space *space, bool clean,
					    uint32_t before_s);
/* Returns the bytes in the shared bins that are not clean. Counts a bounded number of blocks. */
uint64_t pool_cache_unclean_bytes(struct pool_space *space);
/* Locking: needs the cache's lock. Adds CACHE's counters to the space and to the ledger. */
void pool_cache_count(struct pool_space *space, struct pool_cache *cache);
/* The same for all threads' caches, with their locks. */
void pool_cache_count_all(struct pool *pool, struct pool_space *space);
#define COUNT_EVERY 1024 /* calls of a thread between two counts */
/* Locking: needs the cache's lock. Returns true, and adds the cache's counters to the space, if
 * that is due. A thread that allocates and frees in turn has nothing to count. */
static HOT bool pool_cache_count_if_due(struct pool_space *space, struct pool_cache *cache,
					bool was_free)
{
	int64_t flush = (int64_t)space->context->flush;
	bool due = was_free ? cache->frees >= COUNT_EVERY || cache->cached >= flush
			    : cache->hits >= COUNT_EVERY ||
				      (cache->last_was_alloc && cache->cached <= -flush);

	cache->last_was_alloc = !was_free;
	if (__builtin_expect(due, 0))
		pool_cache_count(space, cache);
	return due;
}

/* Writes the sums of SPACE into the ledger. */
void pool_publish(struct pool_space *space);
