/* SPDX-License-Identifier: MIT
 *
 * Where kept blocks lie: a ring for each bin in each thread's own cache, first in first out,
 * so that the longest freed is handed out first; what overflows lies in the bins of the space.
 * What one thread frees of another's lies in a list of that one's, until it or anybody takes that.
 * Must not call the driver.
 */
#include "interpose/cuda/pool/pool_internal.h"
#include "interpose/block/pool_counters.h"

#include "interpose/base/submit_epoch.h"

#define BATCH 4 /* blocks that move between a ring and a bin at a time */
#define RETURNED_MAX 16 /* blocks that a thread which asks for nothing may have in `returned` */
#define UNCLEAN_LOOKS 4096 /* some 0.1 ms */
#define DOUBLINGS (3 * 32) /* bins; smaller neighbours add little to a large part */

static void unuse(struct pool_cache *cache, unsigned int bin)
{
	__atomic_store_n(&cache->used[bin / 64], cache->used[bin / 64] & ~(1ull << bin % 64),
			 __ATOMIC_RELAXED);
}

/* The first bit that is set at or after BIN; POOL_BINS if none is. */
static unsigned int next_bit(const uint64_t *words, unsigned int bin)
{
	unsigned int at = bin / 64;
	uint64_t word;

	if (bin >= POOL_BINS)
		return POOL_BINS;
	word = __atomic_load_n(&words[at], __ATOMIC_RELAXED) & ~0ull << bin % 64;
	while (!word && ++at < POOL_BIN_WORDS)
		word = __atomic_load_n(&words[at], __ATOMIC_RELAXED);
	return word ? at * 64 + (unsigned int)__builtin_ctzll(word) : POOL_BINS;
}

/* ---- bins; with the space's lock ---- */

/* Without the lock. */
static bool is_filled(struct pool_space *space, unsigned int bin)
{
	return __atomic_load_n(&space->filled[bin / 64], __ATOMIC_RELAXED) >> bin % 64 & 1;
}

static void fill(struct pool_space *space, unsigned int bin, bool filled)
{
	uint64_t *word = &space->filled[bin / 64], bit = 1ull << bin % 64;

	__atomic_store_n(word, filled ? *word | bit : *word & ~bit, __ATOMIC_RELAXED);
}

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
	fill(space, bin, true);
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
		fill(space, bin, false);
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
		atomic_fetch_or(&space->context->tickets.kinds, 1u << space->kind);
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

/* What lies in a larger bin than it is to serve: of a part the rest is free again. */
static struct pool_block *fit(struct pool_space *space, struct pool_block *block, unsigned int bin)
{
	if (!block || pool_slab_fits(block, bin))
		return block;
	lock_take(&space->lock);
	pool_slab_cut(block, bin);
	lock_give(&space->lock);
	return block;
}

/* By who has the cache's lock. */
static struct pool_block *take_from_rings(struct pool_space *space, struct pool_cache *cache,
					  unsigned int bin, unsigned int last)
{
	struct pool_block *block = NULL;
	uint64_t pending;

	for (bin = next_bit(cache->used, bin); bin <= last && !block && bin < POOL_BINS;
	     bin = next_bit(cache->used, bin + 1)) {
		block = pool_take_own(space->context, cache, bin, &pending);
		if (!cache->ring[bin].count)
			unuse(cache, bin);
	}
	return block;
}

/* More than one, if it is of the bin that this thread uses and has room for: the rest goes to its
 * ring. */
static struct pool_block *take_from_bins(struct pool_space *space, struct pool_cache *cache,
					 unsigned int bin, unsigned int last)
{
	unsigned int room = POOL_RING - __atomic_load_n(&cache->ring[bin].count, __ATOMIC_RELAXED);
	struct pool_block *more[BATCH], *block = NULL;
	unsigned int count = 0, taken = 0;

	lock_take(&space->lock);
	for (unsigned int at = next_bit(space->filled, bin); at <= last && !block;
	     at = next_bit(space->filled, at + 1))
		block = bin_take(space, at);
	while (block && block->bin == bin && count < BATCH && count < room &&
	       (more[count] = bin_take(space, bin)) != NULL)
		count++;
	lock_give(&space->lock);
	if (!count)
		return block;
	pool_cache_enter(cache);
	while (count && cache->ring[bin].count < POOL_RING) {
		pool_ring_push(&cache->ring[bin], more[taken++]);
		pool_cache_use(cache, bin);
		count--;
	}
	pool_cache_leave(cache);
	if (!count)
		return block;
	lock_take(&space->lock); /* a cache that is several threads' was filled meanwhile */
	while (count--)
		bin_add(space, more[taken++]);
	lock_give(&space->lock);
	return block;
}

struct pool_block *pool_take_older(struct pool_space *space, struct pool_cache *cache,
				   unsigned int bin)
{
	unsigned int count = __atomic_load_n(&cache->ring[bin].count, __ATOMIC_RELAXED);

	if ((count && count <= POOL_RING - BATCH) || !is_filled(space, bin))
		return NULL;
	return take_from_bins(space, cache, bin, bin);
}

/* With both locks. */
static void empty_ring(struct pool_space *space, struct pool_ring *ring)
{
	while (ring->count)
		bin_add(space, pool_ring_pop(ring));
}

/* ---- what threads free of others' ---- */

static bool has_returned(const struct pool_cache *cache)
{
	return atomic_load_explicit(&cache->returned, memory_order_relaxed) != NULL;
}

/* Oldest first, linked by `next`. */
static struct pool_block *take_returned(struct pool_cache *cache)
{
	struct pool_block *ret = NULL, *newest = NULL, *next;

	if (has_returned(cache))
		newest = atomic_exchange_explicit(&cache->returned, NULL, memory_order_acquire);
	for (; newest; newest = next) {
		next = newest->next;
		newest->next = ret;
		ret = newest;
	}
	return ret;
}

/* With the space's lock. */
static void bins_add(struct pool_space *space, struct pool_block *oldest)
{
	struct pool_block *next;

	for (; oldest; oldest = next) {
		next = oldest->next;
		bin_add(space, oldest);
	}
}

/* Its thread has not asked for a while: then all may find them. */
static void share_returned(struct pool_space *space, struct pool_cache *cache)
{
	if (!has_returned(cache))
		return;
	lock_take(&space->lock); /* before they are taken: who ends the context finds them */
	bins_add(space, take_returned(cache));
	lock_give(&space->lock);
}

bool pool_hand_back(struct pool_ring *ring, struct pool_block *block)
{
	struct pool_space *space = block->space; /* it is anybody's once it is in there */
	struct pool_cache *cache = block->taker;
	struct pool_block *last = atomic_load_explicit(&cache->returned, memory_order_relaxed);
	unsigned int behind;

	if (ring->wants) {
		ring->wants--;
		return false;
	}
	do { /* `last` may be somebody's by now, and its number of another time: still a number */
		behind = last ? atomic_load_explicit(&last->behind, memory_order_relaxed) + 1u : 0;
		atomic_store_explicit(&block->behind, (uint8_t)behind, memory_order_relaxed);
		block->next = last;
	} while (!atomic_compare_exchange_weak_explicit(&cache->returned, &last, block,
							memory_order_release,
							memory_order_relaxed));
	if (behind >= RETURNED_MAX)
		share_returned(space, cache);
	return true;
}

struct pool_block *pool_take_returned(struct pool_space *space, struct pool_cache *cache,
				      unsigned int bin, uint64_t *ret_pending)
{
	struct pool_block *block, *next, *rest = NULL, **end = &rest;

	pool_cache_enter(cache);
	cache->ring[bin].wants = POOL_RING;
	for (block = take_returned(cache); block; block = next) {
		struct pool_ring *ring = &cache->ring[block->bin];

		next = block->next;
		if (ring->count < POOL_RING) {
			pool_ring_push(ring, block);
			pool_cache_use(cache, block->bin);
		} else {
			*end = block;
			end = &block->next;
		}
	}
	*end = NULL;
	block = pool_take_own(space->context, cache, bin, ret_pending);
	pool_cache_leave(cache);
	if (rest) {
		lock_take(&space->lock);
		bins_add(space, rest);
		lock_give(&space->lock);
	}
	return block;
}

/* Without their locks, to leave those alone who have nothing. What was returned to them needs
 * none. Where one has to be held up, the rest of its ring goes to the bins, so that it need not be
 * again for each block. */
static struct pool_block *take_from_others(struct pool *pool, struct pool_space *space,
					   struct pool_cache *own, unsigned int bin,
					   unsigned int last)
{
	struct pool_block *block = NULL;

	for (unsigned int i = 0; i < caches_end(pool) && !block; i++) {
		struct pool_cache *cache = atomic_load(cache_slot(pool, space, i));

		if (cache && has_returned(cache)) {
			share_returned(space, cache);
			block = take_from_bins(space, own, bin, last);
		}
		if (block || !cache || cache == own || next_bit(cache->used, bin) > last)
			continue;
		pool_cache_seize(cache);
		block = take_from_rings(space, cache, bin, last);
		if (block) {
			lock_take(&space->lock);
			empty_ring(space, &cache->ring[block->bin]);
			lock_give(&space->lock);
		}
		pool_cache_release(cache);
	}
	return block;
}

struct pool_block *pool_take_any(struct pool *pool, struct pool_space *space,
				 struct pool_cache *cache, unsigned int bin, uint64_t bytes)
{
	unsigned int last = pool_last_bin_for(bin);
	struct pool_block *block;
	bool tight;

	pool_cache_enter(cache);
	tight = pool_slab_is_tight(space, cache, bytes);
	pool_cache_leave(cache);
	if (tight) {
		block = take_from_bins(space, cache, bin, bin);
		if (block)
			return block;
		pool_give_parts(pool, space, cache, bin > DOUBLINGS ? bin - DOUBLINGS : 0);
	}
	pool_cache_enter(cache);
	block = take_from_rings(space, cache, bin, last);
	pool_cache_leave(cache);
	if (!block)
		block = take_from_bins(space, cache, bin, last);
	block = fit(space, block, bin);
	if (!block)
		block = pool_slab_carve(pool, space, bin, bytes);
	return block ? block : fit(space, take_from_others(pool, space, cache, bin, last), bin);
}

void pool_keep_overflow(struct pool_space *space, struct pool_ring *ring)
{
	lock_take(&space->lock);
	for (unsigned int i = 0; i < BATCH; i++)
		bin_add(space, pool_ring_pop(ring));
	lock_give(&space->lock);
}

/* With both locks. */
static void empty_rings(struct pool_space *space, struct pool_cache *cache, unsigned int from)
{
	for (unsigned int bin = next_bit(cache->used, from); bin < POOL_BINS;
	     bin = next_bit(cache->used, bin + 1)) {
		empty_ring(space, &cache->ring[bin]);
		unuse(cache, bin);
	}
}

void pool_collect(struct pool *pool, struct pool_space *space)
{
	for (unsigned int i = 0; i < caches_end(pool); i++) {
		struct pool_cache *cache = atomic_load(cache_slot(pool, space, i));

		if (!cache)
			continue;
		pool_cache_seize(cache);
		lock_take(&space->lock);
		empty_rings(space, cache, 0);
		lock_give(&space->lock);
		pool_count(space, cache);
		pool_cache_release(cache);
	}
	/* Who was handing something back to another has done so by now: with its own lock. */
	for (unsigned int i = 0; i < caches_end(pool); i++) {
		struct pool_cache *cache = atomic_load(cache_slot(pool, space, i));

		if (cache)
			share_returned(space, cache);
	}
}

struct pool_block *pool_take_oldest(struct pool_space *space, bool clean, uint32_t before_s)
{
	struct pool_block *found = NULL, *block;

	lock_take(&space->lock);
	for (unsigned int bin = next_bit(space->filled, 0); bin < POOL_BINS;
	     bin = next_bit(space->filled, bin + 1)) {
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

uint64_t pool_unclean(struct pool_space *space)
{
	int looks = UNCLEAN_LOOKS;
	uint64_t bytes = 0;

	lock_take(&space->lock);
	for (unsigned int bin = next_bit(space->filled, 0); bin < POOL_BINS;
	     bin = next_bit(space->filled, bin + 1)) {
		const struct pool_block *block = space->bin[bin].newest;

		for (; block && looks > 0; block = block->previous, looks--)
			bytes += pool_is_clean(block) ? 0 : block->capacity;
	}
	lock_give(&space->lock);
	return bytes;
}

/* ---- parts ---- */

/* The first bin after LAST whose oldest block is a clean part that BYTES may be of. */
static unsigned int larger_in_bins(struct pool_space *space, unsigned int last, uint64_t bytes)
{
	unsigned int bin = next_bit(space->filled, last + 1);

	for (; bin < POOL_BINS; bin = next_bit(space->filled, bin + 1)) {
		const struct pool_block *block = space->bin[bin].oldest;

		if (pool_slab_serves(block, bytes) && pool_is_clean(block))
			break;
	}
	return bin;
}

static unsigned int larger_in_rings(struct pool_cache *cache, unsigned int last, uint64_t bytes)
{
	unsigned int bin = next_bit(cache->used, last + 1);

	for (; bin < POOL_BINS; bin = next_bit(cache->used, bin + 1)) {
		const struct pool_ring *ring = &cache->ring[bin];

		if (!ring->count)
			unuse(cache, bin);
		else if (pool_slab_serves(ring->block[ring->first], bytes) &&
			 pool_is_clean(ring->block[ring->first]))
			break;
	}
	return bin;
}

struct pool_block *pool_take_larger(struct pool_space *space, struct pool_cache *cache,
				    unsigned int bin, uint64_t bytes)
{
	unsigned int last = pool_last_bin_for(bin), own, any;
	struct pool_block *block = NULL;

	pool_cache_enter(cache);
	lock_take(&space->lock);
	own = larger_in_rings(cache, last, bytes);
	any = larger_in_bins(space, last, bytes);
	if (own < POOL_BINS && own <= any)
		block = pool_ring_pop(&cache->ring[own]);
	else if (any < POOL_BINS)
		block = bin_take(space, any);
	if (block)
		pool_slab_cut(block, bin);
	lock_give(&space->lock);
	pool_cache_leave(cache);
	return block;
}

/* With the space's lock. */
static uint64_t give_parts_of(struct pool *pool, struct pool_space *space, unsigned int bin)
{
	struct pool_block *block = space->bin[bin].oldest, *next;
	uint64_t given = 0;

	for (; block && pool_is_clean(block); block = next) {
		next = block->next;
		if (!block->slab)
			continue;
		bin_remove(space, block);
		given += block->capacity;
		pool_slab_return(pool, block);
	}
	return given;
}

uint64_t pool_give_parts(struct pool *pool, struct pool_space *space, struct pool_cache *cache,
			 unsigned int from)
{
	uint64_t given = 0;

	if (cache) {
		pool_cache_enter(cache);
		lock_take(&space->lock);
		empty_rings(space, cache, from);
		lock_give(&space->lock);
		pool_cache_leave(cache);
	}
	for (unsigned int bin = from; bin < POOL_BINS; bin++) {
		lock_take(&space->lock);
		bin = next_bit(space->filled, bin);
		if (bin < POOL_BINS)
			given += give_parts_of(pool, space, bin);
		lock_give(&space->lock);
	}
	return given;
}

bool pool_others_keep(struct pool *pool, struct pool_space *space, const struct pool_cache *own)
{
	for (unsigned int i = 0; i < caches_end(pool); i++) {
		const struct pool_cache *cache = atomic_load(cache_slot(pool, space, i));

		if (cache && cache != own &&
		    (next_bit(cache->used, 0) < POOL_BINS || has_returned(cache)))
			return true;
	}
	return false;
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

/* The record's numbers are sums over contexts, and over the sorts of pinned memory. */
void pool_tell(struct pool_space *space)
{
	struct ledger_pool *record = space->record;
	uint64_t kept = pool_or_zero(atomic_load(&space->kept)), pending = pool_pending(space);
	uint64_t reserved = pool_or_zero(atomic_load(&space->reserved));
	uint64_t waste = pool_or_zero(atomic_load(&space->waste));
	uint64_t in_use = pool_or_zero((int64_t)(reserved - kept - waste));

	if (pending > kept)
		pending = kept;
	tell(&record->cached, &space->told[0], kept - pending);
	tell(&record->pending, &space->told[1], pending);
	tell(&record->waste, &space->told[2], waste);
	pools_raise(&record->peak_reserved, tell(&record->reserved, &space->told[3], reserved));
	pools_raise(&record->peak_used, tell(&record->in_use, &space->told[4], in_use));
}
