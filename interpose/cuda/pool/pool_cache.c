/* SPDX-License-Identifier: MIT
 *
 * Where cached blocks lie. Each thread's cache has a ring for each bin, first in, first out:
 * the block that was freed first is reused first. Blocks that do not fit lie in the shared
 * bins of the space. A block freed by a thread that did not allocate it goes on the allocating
 * thread's return list. Any thread may detach that list. Must not call the driver.
 */
#include "interpose/cuda/pool/pool_cache.h"

#define BATCH 4 /* blocks that move between a ring and a shared bin at a time */
/* maximum of blocks on the return list of a thread that does not allocate */
#define RETURNED_MAX 16
#define UNCLEAN_LOOKS 4096 /* blocks that one count looks at: about 0.1 ms */
#define DOUBLINGS (3 * 32) /* bins in which parts are coalesced; smaller parts add too little */

static void cache_mark_unused(struct pool_cache *cache, unsigned int bin)
{
	shared_store(cache->used[bin / 64], cache->used[bin / 64] & ~(1ull << bin % 64));
}

/* Returns the first bit that is set at or after BIN, or POOL_BINS. */
static unsigned int bins_next_set(const uint64_t *words, unsigned int bin)
{
	unsigned int at = bin / 64;
	uint64_t word;

	if (bin >= POOL_BINS)
		return POOL_BINS;
	word = shared_load(words[at]) & ~0ull << bin % 64;
	while (!word && ++at < POOL_BIN_WORDS)
		word = shared_load(words[at]);
	return word ? at * 64 + (unsigned int)__builtin_ctzll(word) : POOL_BINS;
}

/* ---- shared bins; Locking: need the space's lock ---- */

/* Takes no lock. */
static bool bin_is_filled(struct pool_space *space, unsigned int bin)
{
	uint64_t *at = &space->filled[bin / 64];
	uint64_t word = shared_load(*at);

	return word >> bin % 64 & 1;
}

static void bin_mark_filled(struct pool_space *space, unsigned int bin, bool filled)
{
	uint64_t *word = &space->filled[bin / 64], bit = 1ull << bin % 64;

	shared_store(*word, filled ? *word | bit : *word & ~bit);
}

static void bin_insert(struct pool_space *space, struct pool_block *block)
{
	unsigned int bin = block->bin;

	block->next = NULL;
	block->previous = space->bin[bin].newest;
	if (block->previous)
		block->previous->next = block;
	else
		space->bin[bin].oldest = block;
	space->bin[bin].newest = block;
	bin_mark_filled(space, bin, true);
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
		bin_mark_filled(space, bin, false);
}

static struct pool_block *bin_remove_clean(struct pool_space *space, unsigned int bin)
{
	struct pool_block *block = space->bin[bin].oldest;

	if (!block || !pool_is_clean(block))
		return NULL;
	bin_remove(space, block);
	return block;
}

/* ---- caches ---- */

static unsigned int cache_context_index(struct pool *pool, const struct pool_space *space)
{
	return (unsigned int)(space->context - pool->context);
}

static _Atomic(struct pool_cache *) *cache_slot(struct pool *pool, const struct pool_space *space,
						unsigned int number)
{
	return &pool->cache[number][cache_context_index(pool, space)][space->kind];
}

struct pool_cache *pool_cache_find(struct pool *pool, struct pool_space *space)
{
	unsigned int number =
		(unsigned int)(thread_self.state - pool->recorder->thread_states->state);
	_Atomic(struct pool_cache *) *slot = cache_slot(pool, space, number);
	struct pool_cache *cache = atomic_load_explicit(slot, memory_order_acquire);
	struct pool_cache *mine;

	if (!cache && (mine = arena_take(pool->arena, sizeof(*mine))) != NULL) {
		mine->single_thread = pool->single_thread && !thread_self.state->shared;
		atomic_fetch_or(&space->context->fences.kinds, 1u << space->kind);
		if (atomic_compare_exchange_strong(slot, &cache, mine))
			cache = mine;
		else /* threads share state 0 */
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
	unsigned int highest = atomic_load(&pool->recorder->thread_states->highest);

	return highest ? highest : 1;
}

/* Cuts BLOCK, which may be larger than BIN, to the size of BIN. The rest returns to the slab. */
static struct pool_block *part_cut_to_bin(struct pool_space *space, struct pool_block *block,
					  unsigned int bin)
{
	if (!block || pool_slab_fits(block, bin))
		return block;
	HOLD(&space->lock);
	pool_slab_cut(block, bin);
	return block;
}

/* Locking: needs the cache's lock. Removes the first clean block of bins BIN to LAST. */
static struct pool_block *rings_remove_clean(struct pool_space *space, struct pool_cache *cache,
					     unsigned int bin, unsigned int last)
{
	struct pool_block *block = NULL;
	uint64_t pending;

	for (bin = bins_next_set(cache->used, bin); bin <= last && !block && bin < POOL_BINS;
	     bin = bins_next_set(cache->used, bin + 1)) {
		block = pool_cache_remove_own(space->context, cache, bin, &pending);
		if (!cache->ring[bin].count)
			cache_mark_unused(cache, bin);
	}
	return block;
}

/* Removes the first clean block of bins BIN to LAST. If it is of BIN, moves more blocks to the
 * thread's ring while that has room. */
static struct pool_block *bins_remove_clean(struct pool_space *space, struct pool_cache *cache,
					    unsigned int bin, unsigned int last)
{
	unsigned int room = POOL_RING - shared_load(cache->ring[bin].count);
	struct pool_block *more[BATCH], *block = NULL;
	unsigned int count = 0, taken = 0;

	lock_take(&space->lock);
	for (unsigned int at = bins_next_set(space->filled, bin); at <= last && !block;
	     at = bins_next_set(space->filled, at + 1))
		block = bin_remove_clean(space, at);
	while (block && block->bin == bin && count < BATCH && count < room &&
	       (more[count] = bin_remove_clean(space, bin)) != NULL)
		count++;
	lock_give(&space->lock);
	if (!count)
		return block;
	pool_cache_enter(cache);
	while (count && cache->ring[bin].count < POOL_RING) {
		pool_ring_push(&cache->ring[bin], more[taken++]);
		pool_cache_mark_used(cache, bin);
		count--;
	}
	pool_cache_leave(cache);
	if (!count)
		return block;
	lock_take(&space->lock); /* another thread filled the shared cache meanwhile */
	while (count--)
		bin_insert(space, more[taken++]);
	lock_give(&space->lock);
	return block;
}

struct pool_block *pool_cache_remove_older(struct pool_space *space, struct pool_cache *cache,
					   unsigned int bin)
{
	unsigned int count = shared_load(cache->ring[bin].count);

	if ((count && count <= POOL_RING - BATCH) || !bin_is_filled(space, bin))
		return NULL;
	return bins_remove_clean(space, cache, bin, bin);
}

/* Locking: needs the cache's lock and the space's lock. */
static void ring_to_bin(struct pool_space *space, struct pool_ring *ring)
{
	while (ring->count)
		bin_insert(space, pool_ring_pop(ring));
}

/* ---- return lists ---- */

static bool cache_has_returned(const struct pool_cache *cache)
{
	return atomic_load_explicit(&cache->returned, memory_order_relaxed) != NULL;
}

/* Detaches the return list and returns its blocks, oldest first, linked by `next`. */
static struct pool_block *cache_detach_returned(struct pool_cache *cache)
{
	struct pool_block *ret = NULL, *newest = NULL, *next;

	if (cache_has_returned(cache))
		newest = atomic_exchange_explicit(&cache->returned, NULL, memory_order_acquire);
	for (; newest; newest = next) {
		next = newest->next;
		newest->next = ret;
		ret = newest;
	}
	return ret;
}

/* Locking: needs the space's lock. */
static void bins_insert_list(struct pool_space *space, struct pool_block *oldest)
{
	struct pool_block *next;

	for (; oldest; oldest = next) {
		next = oldest->next;
		bin_insert(space, oldest);
	}
}

/* Moves the return list of a thread that did not allocate recently to the shared bins. */
static void cache_share_returned(struct pool_space *space, struct pool_cache *cache)
{
	if (!cache_has_returned(cache))
		return;
	lock_take(&space->lock); /* before the list is detached: see context_drop() */
	bins_insert_list(space, cache_detach_returned(cache));
	lock_give(&space->lock);
}

bool pool_cache_return_to_owner(struct pool_ring *ring, struct pool_block *block)
{
	struct pool_space *space = block->space; /* read before any thread may remove BLOCK */
	struct pool_cache *cache = block->owner;
	struct pool_block *last = atomic_load_explicit(&cache->returned, memory_order_relaxed);
	unsigned int depth;

	if (ring->foreign_quota) {
		ring->foreign_quota--;
		return false;
	}
	do { /* `last` may be reused meanwhile: then its queue_depth is only a wrong number */
		depth = last ? atomic_load_explicit(&last->queue_depth, memory_order_relaxed) + 1u
			     : 0;
		atomic_store_explicit(&block->queue_depth, (uint8_t)depth, memory_order_relaxed);
		block->next = last;
	} while (!atomic_compare_exchange_weak_explicit(&cache->returned, &last, block,
							memory_order_release,
							memory_order_relaxed));
	if (depth >= RETURNED_MAX)
		cache_share_returned(space, cache);
	return true;
}

struct pool_block *pool_cache_remove_returned(struct pool_space *space, struct pool_cache *cache,
					      unsigned int bin, uint64_t *ret_pending)
{
	struct pool_block *block, *next, *rest = NULL, **end = &rest;

	pool_cache_enter(cache);
	cache->ring[bin].foreign_quota = POOL_RING;
	for (block = cache_detach_returned(cache); block; block = next) {
		struct pool_ring *ring = &cache->ring[block->bin];

		next = block->next;
		if (ring->count < POOL_RING) {
			pool_ring_push(ring, block);
			pool_cache_mark_used(cache, block->bin);
		} else {
			*end = block;
			end = &block->next;
		}
	}
	*end = NULL;
	block = pool_cache_remove_own(space->context, cache, bin, ret_pending);
	pool_cache_leave(cache);
	if (rest) {
		HOLD(&space->lock);
		bins_insert_list(space, rest);
	}
	return block;
}

/* Removes a block from another thread's cache. Reads without locks first, so that threads with
 * empty caches are not disturbed. Return lists need no lock. A ring needs its thread to be stopped;
 * then the whole ring moves to the shared bins, so that one stop is enough. */
static struct pool_block *caches_remove_from_others(struct pool *pool, struct pool_space *space,
						    struct pool_cache *own, unsigned int bin,
						    unsigned int last)
{
	struct pool_block *block = NULL;

	for (unsigned int i = 0; i < caches_end(pool) && !block; i++) {
		struct pool_cache *cache = atomic_load(cache_slot(pool, space, i));

		if (cache && cache_has_returned(cache)) {
			cache_share_returned(space, cache);
			block = bins_remove_clean(space, own, bin, last);
		}
		if (block || !cache || cache == own || bins_next_set(cache->used, bin) > last)
			continue;
		pool_cache_seize(cache);
		block = rings_remove_clean(space, cache, bin, last);
		if (block) {
			HOLD(&space->lock);
			ring_to_bin(space, &cache->ring[block->bin]);
		}
		pool_cache_release(cache);
	}
	return block;
}

struct pool_block *pool_cache_remove_any(struct pool *pool, struct pool_space *space,
					 struct pool_cache *cache, unsigned int bin, uint64_t bytes)
{
	unsigned int last = pool_last_bin_for(bin);
	struct pool_block *block;
	bool tight;

	pool_cache_enter(cache);
	tight = pool_slab_is_fragmented(space, cache, bytes);
	pool_cache_leave(cache);
	if (tight) {
		block = bins_remove_clean(space, cache, bin, bin);
		if (block)
			return block;
		pool_cache_coalesce(pool, space, cache, bin > DOUBLINGS ? bin - DOUBLINGS : 0);
	}
	pool_cache_enter(cache);
	block = rings_remove_clean(space, cache, bin, last);
	pool_cache_leave(cache);
	if (!block)
		block = bins_remove_clean(space, cache, bin, last);
	block = part_cut_to_bin(space, block, bin);
	if (!block)
		block = pool_slab_carve(pool, space, bin, bytes);
	return block ? block
		     : part_cut_to_bin(space,
				       caches_remove_from_others(pool, space, cache, bin, last),
				       bin);
}

void pool_cache_overflow(struct pool_space *space, struct pool_ring *ring)
{
	HOLD(&space->lock);
	for (unsigned int i = 0; i < BATCH; i++)
		bin_insert(space, pool_ring_pop(ring));
}

/* Locking: needs the cache's lock and the space's lock. */
static void rings_to_bins(struct pool_space *space, struct pool_cache *cache, unsigned int from)
{
	for (unsigned int bin = bins_next_set(cache->used, from); bin < POOL_BINS;
	     bin = bins_next_set(cache->used, bin + 1)) {
		ring_to_bin(space, &cache->ring[bin]);
		cache_mark_unused(cache, bin);
	}
}

void pool_cache_collect(struct pool *pool, struct pool_space *space)
{
	for (unsigned int i = 0; i < caches_end(pool); i++) {
		struct pool_cache *cache = atomic_load(cache_slot(pool, space, i));

		if (!cache)
			continue;
		pool_cache_seize(cache);
		lock_take(&space->lock);
		rings_to_bins(space, cache, 0);
		lock_give(&space->lock);
		pool_cache_count(space, cache);
		pool_cache_release(cache);
	}
	/* The loop above locked every cache. So each thread that was returning a block to another
	 * thread has finished, since it held its own cache's lock. */
	for (unsigned int i = 0; i < caches_end(pool); i++) {
		struct pool_cache *cache = atomic_load(cache_slot(pool, space, i));

		if (cache)
			cache_share_returned(space, cache);
	}
}

struct pool_block *pool_cache_remove_oldest(struct pool_space *space, bool clean, uint32_t before_s)
{
	struct pool_block *found = NULL, *block;

	HOLD(&space->lock);
	for (unsigned int bin = bins_next_set(space->filled, 0); bin < POOL_BINS;
	     bin = bins_next_set(space->filled, bin + 1)) {
		block = space->bin[bin].oldest;
		if ((clean && !pool_is_clean(block)) || block->freed_s >= before_s)
			continue;
		if (!found || block->fence < found->fence ||
		    (block->fence == found->fence && block->freed_s < found->freed_s))
			found = block;
	}
	if (found)
		bin_remove(space, found);
	return found;
}

uint64_t pool_cache_unclean_bytes(struct pool_space *space)
{
	int looks = UNCLEAN_LOOKS;
	uint64_t bytes = 0;

	HOLD(&space->lock);
	for (unsigned int bin = bins_next_set(space->filled, 0); bin < POOL_BINS;
	     bin = bins_next_set(space->filled, bin + 1)) {
		const struct pool_block *block = space->bin[bin].newest;

		for (; block && looks > 0; block = block->previous, looks--)
			bytes += pool_is_clean(block) ? 0 : block->capacity;
	}
	return bytes;
}

/* ---- parts ---- */

/* Returns the first bin after LAST whose oldest block is a clean part that may serve BYTES. */
static unsigned int bins_find_larger_part(struct pool_space *space, unsigned int last,
					  uint64_t bytes)
{
	unsigned int bin = bins_next_set(space->filled, last + 1);

	for (; bin < POOL_BINS; bin = bins_next_set(space->filled, bin + 1)) {
		const struct pool_block *block = space->bin[bin].oldest;

		if (pool_slab_serves(block, bytes) && pool_is_clean(block))
			break;
	}
	return bin;
}

static unsigned int rings_find_larger_part(struct pool_cache *cache, unsigned int last,
					   uint64_t bytes)
{
	unsigned int bin = bins_next_set(cache->used, last + 1);

	for (; bin < POOL_BINS; bin = bins_next_set(cache->used, bin + 1)) {
		const struct pool_ring *ring = &cache->ring[bin];

		if (!ring->count)
			cache_mark_unused(cache, bin);
		else if (pool_slab_serves(ring->block[ring->first], bytes) &&
			 pool_is_clean(ring->block[ring->first]))
			break;
	}
	return bin;
}

struct pool_block *pool_cache_remove_larger(struct pool_space *space, struct pool_cache *cache,
					    unsigned int bin, uint64_t bytes)
{
	unsigned int last = pool_last_bin_for(bin), own, any;
	struct pool_block *block = NULL;

	pool_cache_enter(cache);
	lock_take(&space->lock);
	own = rings_find_larger_part(cache, last, bytes);
	any = bins_find_larger_part(space, last, bytes);
	if (own < POOL_BINS && own <= any)
		block = pool_ring_pop(&cache->ring[own]);
	else if (any < POOL_BINS)
		block = bin_remove_clean(space, any);
	if (block)
		pool_slab_cut(block, bin);
	lock_give(&space->lock);
	pool_cache_leave(cache);
	return block;
}

/* Locking: needs the space's lock. Returns the clean parts of BIN to their slabs. Returns their
 * bytes. */
static uint64_t bin_coalesce(struct pool *pool, struct pool_space *space, unsigned int bin)
{
	struct pool_block *block = space->bin[bin].oldest, *next;
	uint64_t coalesced = 0;

	for (; block && pool_is_clean(block); block = next) {
		next = block->next;
		if (!block->slab)
			continue;
		bin_remove(space, block);
		coalesced += block->capacity;
		pool_slab_return_locked(pool, block);
	}
	return coalesced;
}

uint64_t pool_cache_coalesce(struct pool *pool, struct pool_space *space, struct pool_cache *cache,
			     unsigned int from)
{
	uint64_t coalesced = 0;

	if (cache) {
		pool_cache_enter(cache);
		lock_take(&space->lock);
		rings_to_bins(space, cache, from);
		lock_give(&space->lock);
		pool_cache_leave(cache);
	}
	for (unsigned int bin = from; bin < POOL_BINS; bin++) {
		HOLD(&space->lock);
		bin = bins_next_set(space->filled, bin);
		if (bin < POOL_BINS)
			coalesced += bin_coalesce(pool, space, bin);
	}
	return coalesced;
}

bool pool_cache_others_have(struct pool *pool, struct pool_space *space,
			    const struct pool_cache *own)
{
	for (unsigned int i = 0; i < caches_end(pool); i++) {
		const struct pool_cache *cache = atomic_load(cache_slot(pool, space, i));

		if (cache && cache != own &&
		    (bins_next_set(cache->used, 0) < POOL_BINS || cache_has_returned(cache)))
			return true;
	}
	return false;
}

/* ---- totals ---- */

static void counter_add(uint64_t *sum, uint64_t by)
{
	if (by)
		pools_count(sum, by);
}

void pool_cache_count(struct pool_space *space, struct pool_cache *cache)
{
	struct ledger_pool *record = space->record;

	atomic_fetch_add(&space->cached, cache->cached);
	atomic_fetch_add(&space->freed, cache->freed);
	atomic_fetch_add(&space->waste, cache->waste);
	counter_add(&record->hits, cache->hits);
	counter_add(&record->frees, cache->frees);
	counter_add(&record->shared_fences, cache->shared);
	cache->cached = cache->freed = cache->waste = 0;
	cache->hits = cache->frees = cache->shared = 0;
}

void pool_cache_count_all(struct pool *pool, struct pool_space *space)
{
	for (unsigned int i = 0; i < caches_end(pool); i++) {
		struct pool_cache *cache = atomic_load(cache_slot(pool, space, i));

		if (!cache)
			continue;
		pool_cache_seize(cache);
		pool_cache_count(space, cache);
		pool_cache_release(cache);
	}
}

/* Adds what NOW has grown by to *SUM. Returns the sum. */
static uint64_t counter_publish(uint64_t *sum, _Atomic int64_t *published, uint64_t now)
{
	uint64_t grown = now - (uint64_t)atomic_exchange(published, (int64_t)now);

	return grown ? pools_count(sum, grown) + grown : shared_load(*sum);
}

/* The record's numbers are sums over contexts, and over the kinds of pinned memory. */
void pool_publish(struct pool_space *space)
{
	struct ledger_pool *record = space->record;
	uint64_t cached = pool_or_zero(atomic_load(&space->cached)),
		 pending = pool_pending_bytes(space);
	uint64_t reserved = pool_or_zero(atomic_load(&space->reserved));
	uint64_t waste = pool_or_zero(atomic_load(&space->waste));
	uint64_t in_use = pool_or_zero((int64_t)(reserved - cached - waste));

	if (pending > cached)
		pending = cached;
	counter_publish(&record->cached, &space->published[0], cached - pending);
	counter_publish(&record->pending, &space->published[1], pending);
	counter_publish(&record->waste, &space->published[2], waste);
	pools_raise(&record->peak_reserved,
		    counter_publish(&record->reserved, &space->published[3], reserved));
	pools_raise(&record->peak_used,
		    counter_publish(&record->in_use, &space->published[4], in_use));
}
