/* SPDX-License-Identifier: MIT
 *
 * Where kept blocks lie: a ring for each bin in each thread's own cache, first in first out,
 * so that the longest freed is handed out first; what overflows lies in the bins of the space.
 * Must not call the driver.
 */
#include "pool_parts.h"

#include "submits.h"

#define BATCH 4 /* blocks that move between a ring and a bin at a time */

/* ---- bins; with the space's lock ---- */

static void bin_add(struct pool_space *space, struct pool_block *block)
{
	unsigned int bin = block->bin;

	block->next = NULL;
	block->previous = space->bin[bin].newest;
	if (block->previous)
		block->previous->next = block;
	else
		space->bin[bin].oldest = block;
	space->bin[bin].newest = block;
	space->filled[bin / 64] |= 1ull << bin % 64;
}

static void bin_remove(struct pool_space *space, struct pool_block *block)
{
	unsigned int bin = block->bin;

	if (block->previous)
		block->previous->next = block->next;
	else
		space->bin[bin].oldest = block->next;
	if (block->next)
		block->next->previous = block->previous;
	else
		space->bin[bin].newest = block->previous;
	block->next = block->previous = NULL;
	if (!space->bin[bin].oldest)
		space->filled[bin / 64] &= ~(1ull << bin % 64);
}

static struct pool_block *bin_take(struct pool_space *space, unsigned int bin)
{
	struct pool_block *block = space->bin[bin].oldest;

	if (!block || !pool_is_clean(block))
		return NULL;
	bin_remove(space, block);
	return block;
}

/* ---- caches ---- */

static unsigned int context_number(struct pool *pool, const struct pool_space *space)
{
	return (unsigned int)(space->context - pool->context);
}

static _Atomic(struct pool_cache *) *cache_slot(struct pool *pool, const struct pool_space *space,
						unsigned int stripe)
{
	return &pool->cache[stripe][context_number(pool, space)][space->kind];
}

struct pool_cache *pool_cache_found(struct pool *pool, struct pool_space *space)
{
	unsigned int stripe =
		(unsigned int)(thread_self.stripe - pool->recorder->stripes.stripe);
	_Atomic(struct pool_cache *) *slot = cache_slot(pool, space, stripe);
	struct pool_cache *cache = atomic_load_explicit(slot, memory_order_acquire);
	struct pool_cache *mine;

	if (!cache && (mine = arena_take(pool->arena, sizeof(*mine))) != NULL) {
		mine->alone = pool->alone && !thread_self.stripe->shared;
		if (atomic_compare_exchange_strong(slot, &cache, mine))
			cache = mine;
		else /* stripe 0 is several threads' */
			arena_give(pool->arena, mine, sizeof(*mine));
	}
	if (cache) {
		thread_self.pool_space = space;
		thread_self.pool_cache = cache;
	}
	return cache;
}

static unsigned int caches_end(struct pool *pool)
{
	unsigned int highest = atomic_load(&pool->recorder->stripes.highest);

	return highest ? highest : 1;
}

/* The next bin at or after BIN in which something lies, up to LAST; POOL_BINS if none does. */
static unsigned int next_filled(const struct pool_space *space, unsigned int bin,
				unsigned int last)
{
	for (; bin <= last; bin++)
		if (space->filled[bin / 64] >> bin % 64 & 1)
			return bin;
	return POOL_BINS;
}

/* More than one, if it is of the bin that this thread uses: the rest goes to its ring. */
static struct pool_block *take_from_bins(struct pool_space *space, struct pool_cache *cache,
					 unsigned int bin, unsigned int last)
{
	struct pool_block *more[BATCH], *block = NULL;
	unsigned int count = 0;

	lock_take(&space->lock);
	for (unsigned int at = next_filled(space, bin, last); at < POOL_BINS && !block;
	     at = next_filled(space, at + 1, last))
		block = bin_take(space, at);
	while (block && block->bin == bin && count < BATCH &&
	       (more[count] = bin_take(space, bin)) != NULL)
		count++;
	lock_give(&space->lock);
	if (!count)
		return block;
	pool_cache_enter(cache);
	for (unsigned int i = 0; i < count && cache->ring[bin].count < POOL_RING; i++) {
		pool_ring_push(&cache->ring[bin], more[i]);
		more[i] = NULL;
	}
	pool_cache_leave(cache);
	lock_take(&space->lock);
	for (unsigned int i = 0; i < count; i++)
		if (more[i])
			bin_add(space, more[i]);
	lock_give(&space->lock);
	return block;
}

/* Looked at without the lock, to leave those alone who have nothing. */
static bool may_have(const struct pool_cache *cache, unsigned int bin, unsigned int last)
{
	for (; bin <= last; bin++)
		if (__atomic_load_n(&cache->ring[bin].count, __ATOMIC_RELAXED))
			return true;
	return false;
}

static struct pool_block *take_from_others(struct pool *pool, struct pool_space *space,
					   unsigned int bin, unsigned int last)
{
	struct pool_block *block = NULL;
	uint64_t pending;

	for (unsigned int i = 0; i < caches_end(pool) && !block; i++) {
		struct pool_cache *cache = atomic_load(cache_slot(pool, space, i));

		if (!cache || !may_have(cache, bin, last))
			continue;
		pool_cache_seize(cache);
		for (unsigned int at = bin; at <= last && !block; at++)
			block = pool_take_own(space->context, cache, at, &pending);
		pool_cache_release(cache);
	}
	return block;
}

struct pool_block *pool_take_any(struct pool *pool, struct pool_space *space,
				 struct pool_cache *cache, unsigned int bin)
{
	unsigned int last = pool_last_bin_for(bin);
	struct pool_block *block = take_from_bins(space, cache, bin, last);

	return block ? block : take_from_others(pool, space, bin, last);
}

void pool_keep_overflow(struct pool_space *space, struct pool_ring *ring)
{
	lock_take(&space->lock);
	for (unsigned int i = 0; i < BATCH; i++)
		bin_add(space, pool_ring_pop(ring));
	lock_give(&space->lock);
}

void pool_collect(struct pool *pool, struct pool_space *space)
{
	for (unsigned int i = 0; i < caches_end(pool); i++) {
		struct pool_cache *cache = atomic_load(cache_slot(pool, space, i));

		if (!cache)
			continue;
		pool_cache_seize(cache);
		lock_take(&space->lock);
		for (unsigned int bin = 0; bin < POOL_BINS; bin++)
			while (cache->ring[bin].count)
				bin_add(space, pool_ring_pop(&cache->ring[bin]));
		lock_give(&space->lock);
		pool_count(space, cache);
		pool_cache_release(cache);
	}
}

struct pool_block *pool_take_oldest(struct pool_space *space, bool clean, uint32_t before_s)
{
	struct pool_block *found = NULL, *block;

	lock_take(&space->lock);
	for (unsigned int bin = next_filled(space, 0, POOL_BINS - 1); bin < POOL_BINS;
	     bin = next_filled(space, bin + 1, POOL_BINS - 1)) {
		block = space->bin[bin].oldest;
		if ((clean && !pool_is_clean(block)) || block->kept_s >= before_s)
			continue;
		if (!found || block->ticket < found->ticket ||
		    (block->ticket == found->ticket && block->kept_s < found->kept_s))
			found = block;
	}
	if (found)
		bin_remove(space, found);
	lock_give(&space->lock);
	return found;
}

/* ---- sums ---- */

static void add_to(uint64_t *sum, uint64_t by)
{
	if (by)
		__atomic_fetch_add(sum, by, __ATOMIC_RELAXED);
}

void pool_count(struct pool_space *space, struct pool_cache *cache)
{
	struct ledger_pool *record = space->record;

	atomic_fetch_add(&space->kept, cache->kept);
	atomic_fetch_add(&space->freed, cache->freed);
	atomic_fetch_add(&space->waste, cache->waste);
	add_to(&record->hits, cache->hits);
	add_to(&record->frees, cache->frees);
	add_to(&record->shared_tickets, cache->shared);
	cache->kept = cache->freed = cache->waste = 0;
	cache->hits = cache->frees = cache->shared = 0;
}

void pool_count_all(struct pool *pool, struct pool_space *space)
{
	for (unsigned int i = 0; i < caches_end(pool); i++) {
		struct pool_cache *cache = atomic_load(cache_slot(pool, space, i));

		if (!cache)
			continue;
		pool_cache_seize(cache);
		pool_count(space, cache);
		pool_cache_release(cache);
	}
}

/* Returns the sum. */
static uint64_t tell(uint64_t *sum, _Atomic int64_t *told, uint64_t now)
{
	uint64_t grown = now - (uint64_t)atomic_exchange(told, (int64_t)now);

	return grown ? __atomic_add_fetch(sum, grown, __ATOMIC_RELAXED)
		     : __atomic_load_n(sum, __ATOMIC_RELAXED);
}

static void raise_peak(uint64_t *peak, uint64_t value)
{
	uint64_t seen = __atomic_load_n(peak, __ATOMIC_RELAXED);

	while (value > seen &&
	       !__atomic_compare_exchange_n(peak, &seen, value, true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

/* The record's numbers are sums over contexts, and over the sorts of pinned memory. */
void pool_tell(struct pool_space *space)
{
	struct ledger_pool *record = space->record;
	uint64_t kept = pool_or_zero(atomic_load(&space->kept)), pending = 0, freed;
	uint64_t reserved = pool_or_zero(atomic_load(&space->reserved));
	uint64_t waste = pool_or_zero(atomic_load(&space->waste));
	uint64_t in_use = pool_or_zero((int64_t)(reserved - kept - waste));

	if (pool_tickets_oldest(space->context, &freed))
		pending = pool_or_zero(atomic_load(&space->freed) - (int64_t)freed);
	else
		pending = pool_or_zero(atomic_load(&space->context->tickets.owed_bytes));
	if (pending > kept)
		pending = kept;
	tell(&record->cached, &space->told[0], kept - pending);
	tell(&record->pending, &space->told[1], pending);
	tell(&record->waste, &space->told[2], waste);
	raise_peak(&record->peak_reserved, tell(&record->reserved, &space->told[3], reserved));
	raise_peak(&record->peak_used, tell(&record->in_use, &space->told[4], in_use));
}
