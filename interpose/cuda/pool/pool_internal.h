/* SPDX-License-Identifier: MIT
 *
 * The pool from inside, for its own files: pool.c (the order of things in an allocation and a
 * free), pool_cache.c (where kept blocks lie), pool_fence.c (when they are clean),
 * pool_native.c (what comes from the driver and goes back), pool_address_map.c (which block an
 * address is), pool_slabs.c (parts of larger blocks).
 *
 * Who works in here has entered the recorder, so a signal handler's GPU calls pass by and no
 * lock is taken twice by one thread. Order of locks: a ticket's lock is taken with no other
 * held; then a cache's, a space's, a slab's, the map's.
 */
#ifndef GPULEAK_POOL_PARTS_H
#define GPULEAK_POOL_PARTS_H

#include <stdatomic.h>

#include "ledger/lock.h"
#include "interpose/base/owner_lock.h"
#include "interpose/cuda/pool/pool.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/base/submit_epoch.h"

#define POOL_CONTEXTS 16 /* open at one time; blocks of further ones are not pooled */
#define POOL_RING 7
#define POOL_FENCES 256 /* outstanding in one context */

/* ---- bins ---- */

/* Sizes that one bin serves: all multiples of the granule up to 32 of them, then 32 steps a
 * doubling, so that a block of a bin is at most 1/32 larger than what is asked of the bin. */
#define POOL_GRANULE 512u
#define POOL_LARGE_GRANULE (2u << 20) /* of the driver's own, from POOL_LARGE_FROM on */
#define POOL_LARGE_FROM (1u << 20)
#define POOL_BINS (32u + 26u * 32u)
#define POOL_BIN_WORDS ((POOL_BINS + 63) / 64)
#define POOL_BYTES_MAX (1ull << 40)
#define POOL_BELOW_LARGE 223u /* the bin of 1 MiB */

/* Requests from 1 MiB on are parts as well, and need no whole large granules. Once for the
 * process, before the first request. */
extern _Atomic bool pool_fine_bins;

static inline uint64_t pool_round_large(uint64_t bytes)
{
	return (bytes + POOL_LARGE_GRANULE - 1) & ~(uint64_t)(POOL_LARGE_GRANULE - 1);
}

static inline unsigned int pool_bin_of_units(uint64_t units)
{
	unsigned int shift;

	if (units <= 32)
		return (unsigned int)units - 1;
	/* Of units from (32 << shift) + 1 to 64 << shift. */
	shift = 63 - (unsigned int)__builtin_clzll(units - 1) - 5;
	return 32 * (shift + 1) + (unsigned int)((units - 1) >> shift) - 32;
}

static inline unsigned int pool_bin_of(uint64_t bytes)
{
	if (bytes >= POOL_LARGE_FROM &&
	    !atomic_load_explicit(&pool_fine_bins, memory_order_relaxed))
		bytes = pool_round_large(bytes);
	return pool_bin_of_units((bytes + POOL_GRANULE - 1) / POOL_GRANULE);
}

static inline uint64_t pool_units_of_bin(unsigned int bin)
{
	if (bin < 32)
		return bin + 1;
	return ((uint64_t)(bin % 32) + 33) << (bin / 32 - 1);
}

/* Bytes of a part that is made for BIN. */
static inline uint64_t pool_bytes_of_bin(unsigned int bin)
{
	return pool_units_of_bin(bin) * POOL_GRANULE;
}

/* The bin of a native block that is made for BIN: from 1 MiB on the driver gives whole large
 * granules. Where all bins are in use, a request for that MiB may be for all of it. */
static inline unsigned int pool_native_bin(unsigned int bin)
{
	if (bin < POOL_BELOW_LARGE + !atomic_load_explicit(&pool_fine_bins, memory_order_relaxed))
		return bin;
	return pool_bin_of_units(pool_round_large(pool_bytes_of_bin(bin)) / POOL_GRANULE);
}

/* The last bin whose blocks may serve what belongs to BIN: an eighth of it larger, or what the
 * driver would give for it. */
static inline unsigned int pool_last_bin_for(unsigned int bin)
{
	uint64_t units = pool_units_of_bin(bin);
	unsigned int native = pool_native_bin(bin);

	bin = pool_bin_of_units(units + units / 8 + 1) - 1;
	if (bin >= POOL_BINS)
		bin = POOL_BINS - 1;
	return native > bin ? native : bin;
}

/* ---- what is pooled ---- */

/* Kinds of memory that are never mixed. */
enum pool_kind {
	POOL_DEVICE,
	POOL_PINNED, /* cuMemHostAlloc by flags 0 to 7, then cuMemAllocHost */
	POOL_PINNED_PLAIN = POOL_PINNED + 8,
	POOL_KINDS
};

enum pool_state {
	POOL_SPARE,	/* a record without a block */
	POOL_LIVE,	/* the application's */
	POOL_CACHED,	/* freed by it; ours to hand out again once its ticket is done */
	POOL_RETURNING, /* on its way back to the driver */
	POOL_CARVED,	/* a slab: its parts are blocks of their own */
};

struct pool_slab;
struct pool_slab_row;
struct pool_space;

struct pool_block { /* what each call looks at first: in the first cache line */
	uint64_t address;
	uint64_t bytes;    /* what the application asked for */
	uint64_t capacity; /* what there is */
	uint64_t fence;	   /* clean once the context's tickets are done up to this one */
	struct pool_space *space;
	struct pool_cache *owner; /* whose thread asked for it, or NULL */
	_Atomic uint32_t state;   /* enum pool_state */
	uint32_t freed_s;	  /* when it was freed, in seconds of the recorder */
	uint16_t bin;
	_Atomic uint8_t queue_depth; /* how many were in `returned` before it */
	uint8_t never_reuse; /* 1 + enum ledger_pool_reason, or 0 */
	uint32_t node;     /* in its slab */
	struct pool_slab *slab;    /* that it is a part of, or NULL */
	struct standing standing; /* the recorder's, while the block has this address */
	/* In a bin of its space, oldest first; in `returned` of a cache by `next`, newest first. */
	struct pool_block *next, *previous;
} __attribute__((aligned(64)));

struct pool_ring {
	uint8_t first, count;
	uint8_t foreign_quota; /* blocks of other threads' to keep when they are freed here */
	struct pool_block *block[POOL_RING]; /* oldest at `first` */
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct pool_ring) == 64, "a cache line");

/* What a stripe's thread keeps of one space. Others take the lock to trim and to steal; what they
 * free of this thread's they put into `returned`, which anybody may take as a whole. */
struct pool_cache {
	struct owner_lock lock; /* the thread's; see owner_lock.h */
	bool single_thread;	/* it is one thread's only */
	bool last_was_alloc;	/* the last call was an allocation */
	int64_t cached, freed, waste; /* bytes since the last pool_cache_count() */
	uint64_t hits, frees, shared;
	uint64_t used[POOL_BIN_WORDS]; /* rings that may have something; none else has */
	struct pool_ring ring[POOL_BINS];
	_Alignas(64) _Atomic(struct pool_block *) returned;
} __attribute__((aligned(64)));

struct pool_fence {
	uint64_t number;
	void *event;
	int64_t freed[POOL_KINDS]; /* bytes that had been freed before the first of its blocks */
	bool covers_later_work; /* submitted after the first free that it is for */
	unsigned int waiters; /* in cuEventSynchronize */
};

struct pool_fences {
	struct lock lock;
	_Atomic uint64_t last_issued; /* the last one made */
	_Atomic uint64_t completed;   /* all up to this one are */
	_Atomic uint64_t epoch;  /* of submit_epoch.h that `issued` covers, plus 1; 0 = none */
	_Atomic uint64_t idle_epoch; /* in which the context was seen to be idle, plus 1 */
	/* A ticket that was not made yet, number issued + 1: a capture is under way, or a few more
	 * frees are to share it. */
	_Atomic bool pending_fence;
	uint64_t pending_first_epoch, pending_last_epoch; /* epochs of the frees that it is for */
	unsigned int pending_epochs;			  /* how many different ones */
	_Atomic int64_t pending_bytes;
	_Atomic uint32_t kinds; /* a bit for each of which a thread ever kept something */
	int64_t pending_freed[POOL_KINDS];	  /* as in the ticket that it will be */
	unsigned int batch_limit, unmissed_frees; /* see put_off() */
	unsigned int first, count, spares;
	struct pool_fence ring[POOL_FENCES];
	void *spare[POOL_FENCES];
};

struct pool_context;

struct pool_space {
	struct pool_context *context;
	enum pool_kind kind;
	struct lock growing; /* a slab is being made: no other lock is held when it is taken */
	struct lock lock; /* of what follows, up to the sums */
	uint64_t filled[POOL_BIN_WORDS];
	struct { struct pool_block *oldest, *newest; } bin[POOL_BINS];
	struct pool_slab_row *slab; /* oldest first */
	unsigned int slabs_room;
	_Atomic unsigned int slabs;
	_Atomic uint64_t slab_bytes; /* of those that are not early */
	/* Bytes; `kept` and `freed` without what caches have not told yet. */
	_Atomic int64_t reserved, cached, freed, waste;
	_Atomic int64_t preallocated;	/* of those reserved: GPULEAK_POOL_PREALLOC */
	_Atomic uint64_t unreclaimable; /* too much, but in slabs of which some part is in use */
	_Atomic int64_t unreclaimable_freed; /* bytes, when that was found */
	_Atomic uint32_t failed_scans,
		skip_scans; /* looks into others' caches: the last ones, the next */
	_Atomic uint64_t peak_used;
	_Atomic uint64_t lag; /* most bytes that the device was behind by, of late */
	_Atomic uint64_t lag_checked_ns; /* when a look at that found no more */
	_Atomic uint32_t
		native_count;	    /* allocations since the device's free memory was looked at */
	_Atomic int64_t free_bytes; /* of the device, when it was */
	struct ledger_pool *record; /* never NULL; several spaces may share one */
	_Atomic int64_t published[5];	 /* its part of the record's sums, see pool_publish() */
	struct ledger_pool local_record; /* where there is no room in the ledger */
};

struct pool_context {
	_Atomic uint64_t handle; /* 0 = not in use */
	_Atomic bool open;   /* blocks are kept and handed out */
	_Atomic bool failed; /* an event failed: everything goes back to the driver */
	int device;
	uint64_t total; /* bytes of the device */
	uint64_t flush; /* bytes that a cache may keep to itself */
	bool strict;    /* a free waits */
	bool by_sync;   /* there are no tickets with this driver: cuCtxSynchronize */
	unsigned int event_flags;
	_Atomic bool prealloc_tried;
	CUstream stream; /* that clean blocks go back on */
	_Atomic unsigned int stream_users; /* threads that have something under way on it */
	struct pool_fences fences;
	struct pool_space space[POOL_KINDS];
} __attribute__((aligned(64)));

struct pool_map_table;

struct pool {
	struct lock making;
	struct arena *arena;
	struct recorder *recorder;
	bool single_thread; /* owner_lock_possible() */
	struct {
		struct lock lock;
		_Atomic(struct pool_map_table *) table;
	} map;
	struct lock spare_lock;
	struct pool_block *spare, *dead; /* records; the dead ones of the context that ended last */
	struct pool_slab *dead_slabs;    /* the same of slabs; under `making` */
	_Atomic uint32_t next_decay_s;
	struct pool_context context[POOL_CONTEXTS];
	_Atomic(struct pool_cache *) cache[STRIPES][POOL_CONTEXTS][POOL_KINDS];
};

/* The recorder's pool, made if need be; NULL if it can't be. */
struct pool *pool_make(struct recorder *recorder);
static inline struct pool *pool_of(struct recorder *recorder)
{
	struct pool *pool = atomic_load_explicit(&recorder->pool, memory_order_acquire);

	return __builtin_expect(pool != NULL, 1) ? pool : pool_make(recorder);
}

/* Counts a block that was left to the driver, or waits longer than usual. */
void pool_reason(struct pool_space *space, enum ledger_pool_reason why);

/* A free of the application's: the driver's own call. */
struct pool_native_free {
	void *real;
	bool async; /* cuMemFreeAsync, on STREAM; if that is not one of the owner's, ELSEWHERE */
	CUstream stream;
	bool elsewhere;
};

/* ---- pool_address_map.c ---- */

/* The block that begins at ADDRESS, or NULL. No lock. */
struct pool_block *pool_map_lookup(struct pool *pool, uint64_t address);
bool pool_map_insert(struct pool *pool, struct pool_block *block); /* in place of a stale one */
void pool_map_remove(struct pool *pool, struct pool_block *block);

/* All blocks of CONTEXT are gone. */
void pool_map_drop(struct pool *pool, struct pool_context *context);

struct pool_block *pool_block_new(struct pool *pool);
void pool_block_recycle(struct pool *pool, struct pool_block *block);

/* ---- pool_fence.c ---- */

static inline bool pool_is_clean_in(const struct pool_context *context,
				    const struct pool_block *block)
{
#ifdef GPULEAK_TEST_NO_FENCES /* tests/torture: what must be noticed if this were missing */
	(void)context;
	(void)block;
	return true;
#else
	return block->fence <=
	       atomic_load_explicit(&context->fences.completed, memory_order_acquire);
#endif
}

static inline bool pool_is_clean(const struct pool_block *block)
{
	return pool_is_clean_in(block->space->context, block);
}

/* Not shared even if nothing seems to have been submitted. */
static inline bool pool_fence_covers(struct pool_fences *fences, uint64_t epoch)
{
	return submits_certain() &&
	       atomic_load_explicit(&fences->epoch, memory_order_acquire) == epoch + 1 &&
	       !atomic_load_explicit(&fences->pending_fence, memory_order_acquire);
}

enum pool_fence_origin {
	POOL_FENCE_COVERED, /* nothing was submitted since the last one */
	POOL_FENCE_SHARED,  /* with frees before it */
	POOL_FENCE_NEW,
};
/* The ticket of BLOCK, which is freed now. It may be made later if nobody waits for it at once. */
uint64_t pool_fence_for_free_slow(const struct pool_block *block, bool at_once,
				  enum pool_fence_origin *ret_origin);
static HOT uint64_t pool_fence_for_free(const struct pool_block *block, bool at_once,
					enum pool_fence_origin *ret_origin)
{
	struct pool_fences *fences = &block->space->context->fences;

	if (__builtin_expect(!pool_fence_covers(fences, submits_epoch()), 0))
		return pool_fence_for_free_slow(block, at_once, ret_origin);
	*ret_origin = POOL_FENCE_COVERED;
	return atomic_load_explicit(&fences->last_issued, memory_order_acquire);
}
/* Looks which tickets are done; never waits. If FOR_GOOD the one that is put off is made. */
void pool_fences_poll(struct pool_context *context, bool record_pending);
/* An allocation found nothing clean: the ticket that is put off is made. */
void pool_fences_note_miss(struct pool_context *context);
/* As polling, of ticket NUMBER and those before it, by one question. */
void pool_fence_query(struct pool_context *context, uint64_t number);
/* Waits until NUMBER is done, as the driver's free would; false if that can't be now (a
 * capture, an error). */
bool pool_fence_wait(struct pool_context *context, uint64_t number);
/* The same for an allocation that found no memory. It waits for what a free of the driver's would
 * have waited for; tickets that cover more than that are looked at for a while only. */
bool pool_fence_wait_for_memory(struct pool_context *context, uint64_t number);
/* See pool_context_idle(). */
void pool_fences_note_sync(struct pool_context *context, uint64_t epoch);
/* Everything that was submitted is done, as far as is known without asking. */
bool pool_is_idle(struct pool_context *context);
/* The number of the oldest ticket that is not done; 0 if there is none. */
uint64_t pool_fences_oldest(struct pool_context *context);
/* Bytes of SPACE that were freed and not seen to be done; less exact than what pool_trim() finds,
 * since threads tell late what they free. */
uint64_t pool_pending_bytes(struct pool_space *space);
bool pool_fences_init(struct pool_context *context); /* finds out what the driver can do */
/* Events go with their context: forgets them all. */
void pool_fences_reset(struct pool_context *context);

/* Around calls that a capture would mind, for this thread alone; cuCtxRecordEvent and
 * cuCtxSynchronize stay what they are. */
int pool_relax(void);
void pool_unrelax(int mode);
/* CONTEXT is current in between. */
bool pool_push_context(struct pool_context *context, bool *ret_pushed);
void pool_pop_context(bool pushed);

/* ---- pool_cache.c ---- */

/* A cache, by the thread that it is of, and by any. */
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

struct pool_cache *pool_cache_find(struct pool *pool, struct pool_space *space);
static inline struct pool_cache *pool_cache_here(struct pool *pool, struct pool_space *space)
{
	if (__builtin_expect(thread_self.pool_space == space, 1))
		return thread_self.pool_cache;
	return pool_cache_find(pool, space);
}
/* No division: a pair passes here twice. */
static inline unsigned int pool_ring_at(unsigned int at)
{
	return at < POOL_RING ? at : at - POOL_RING;
}

static HOT void pool_ring_push(struct pool_ring *ring, struct pool_block *block)
{
	ring->block[pool_ring_at(ring->first + ring->count)] = block;
	__atomic_store_n(&ring->count, (uint8_t)(ring->count + 1), __ATOMIC_RELAXED);
}

static HOT struct pool_block *pool_ring_pop(struct pool_ring *ring)
{
	struct pool_block *block = ring->block[ring->first];

	ring->first = (uint8_t)pool_ring_at(ring->first + 1u);
	__atomic_store_n(&ring->count, (uint8_t)(ring->count - 1), __ATOMIC_RELAXED);
	return block;
}

/* The oldest clean block of BIN that this thread keeps; NULL, and *RET_PENDING is the ticket of
 * the oldest that is not clean, 0 if there is none. */
static HOT struct pool_block *pool_cache_remove_own(const struct pool_context *context,
						    struct pool_cache *cache, unsigned int bin,
						    uint64_t *ret_pending)
{
	struct pool_ring *ring = &cache->ring[bin];
	struct pool_block *block = ring->count ? ring->block[ring->first] : NULL;

	*ret_pending = block ? block->fence : 0;
	return block && pool_is_clean_in(context, block) ? pool_ring_pop(ring) : NULL;
}
/* Call after pool_cache_remove_own() found nothing. The same, after inserting the blocks of this
 * thread that other threads have freed. */
struct pool_block *pool_cache_remove_returned(struct pool_space *space, struct pool_cache *cache,
					      unsigned int bin, uint64_t *ret_pending);
/* Where CACHE has none of BIN, or so many that older ones lie in the bin itself: the oldest of
 * these, if it is clean. (Where it has few, what lies there may be another thread's soon.) */
struct pool_block *pool_cache_remove_older(struct pool_space *space, struct pool_cache *cache,
					   unsigned int bin);
/* From what this thread, nobody and others keep, of BIN or a little larger, or a part for BYTES
 * of what lies unused in slabs. */
struct pool_block *pool_cache_remove_any(struct pool *pool, struct pool_space *space,
					 struct pool_cache *cache, unsigned int bin,
					 uint64_t bytes);
/* A part for BIN, of BYTES, that is cut from the smallest larger one that this thread or nobody
 * keeps. */
struct pool_block *pool_cache_remove_larger(struct pool_space *space, struct pool_cache *cache,
					    unsigned int bin, uint64_t bytes);
/* Clean parts that nobody keeps, or CACHE if it is not NULL, of bins from FROM on, are parts no
 * more. Returns the bytes. */
uint64_t pool_cache_coalesce(struct pool *pool, struct pool_space *space, struct pool_cache *cache,
			     unsigned int from);
/* Others than OWN keep something, as far as can be seen without disturbing them. */
bool pool_cache_others_have(struct pool *pool, struct pool_space *space,
			    const struct pool_cache *own);
/* With the cache's lock, all of these: BIN has something. */
static HOT void pool_cache_mark_used(struct pool_cache *cache, unsigned int bin)
{
	uint64_t word = cache->used[bin / 64], bit = 1ull << bin % 64;

	if (__builtin_expect(!(word & bit), 0))
		__atomic_store_n(&cache->used[bin / 64], word | bit, __ATOMIC_RELAXED);
}

COLD void pool_cache_overflow(struct pool_space *space, struct pool_ring *ring);
/* BLOCK, which another thread had asked for. What this one has lacked itself it keeps; what not
 * goes back to that one, which will ask again. Nobody is held up. False: it is to be kept. */
bool pool_cache_return_to_owner(struct pool_ring *ring, struct pool_block *block);
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
/* All that threads keep of SPACE is in its bins. */
void pool_cache_collect(struct pool *pool, struct pool_space *space);
/* Takes out the block that was kept longest, only a clean one or any; freed before BEFORE_S. */
struct pool_block *pool_cache_remove_oldest(struct pool_space *space, bool clean,
					    uint32_t before_s);
/* Bytes in the bins that are not clean; of a great many blocks, not of all. */
uint64_t pool_cache_unclean_bytes(struct pool_space *space);
/* Sums of the calling thread's cache become everybody's. With its lock. */
void pool_cache_count(struct pool_space *space, struct pool_cache *cache);
void pool_cache_count_all(struct pool *pool, struct pool_space *space);
/* What is kept now, into the ledger. */
void pool_publish(struct pool_space *space);

/* ---- pool_native.c ---- */

/* Sums of what threads tell late may be below zero for a while. */
static inline uint64_t pool_or_zero(int64_t value)
{
	return value > 0 ? (uint64_t)value : 0;
}

/* Whatever stream is captured meanwhile. */
void pool_wait_for_stream(CUstream stream);

/* Memory from the driver for BIN, a live block of BYTES if there is room for its record; not
 * entered. */
CUresult pool_native_alloc(struct pool *pool, struct pool_space *space, void *real,
			   unsigned int bin, uint64_t bytes, uint64_t *ret_address);
/* The same for ourselves, entered, of exactly BYTES: the block or NULL; and back, without
 * waiting. */
struct pool_block *pool_native_alloc_slab(struct pool *pool, struct pool_space *space, void *real,
					  uint64_t bytes);
bool pool_native_return_slab(struct pool *pool, struct pool_block *block);
/* What CONTEXT needs for that, made now: it takes some of the device's memory. */
void pool_native_init(struct pool_context *context);
/* The context of BLOCKS, linked by `next`, has ended: what outlives it goes back to the driver. */
void pool_native_free_outlived(const struct pool_block *blocks);
/* BLOCK, which is in no bin, goes back. The driver's answer; on failure the block is as it
 * was. NATIVE: by which of the driver's calls, or NULL for its own kind's. */
CUresult pool_native_return(struct pool *pool, struct pool_block *block,
			    const struct pool_native_free *native);
/* After a change of what is kept: waits, if that MAY be, and gives back what is more than may
 * be kept. */
void pool_trim_to_limit(struct pool *pool, struct pool_space *space, bool may_wait);
/* Gives back up to BYTES of SPACE that are clean, the oldest first; what can't be given without
 * a wait (pinned, managed) only where nothing runs if IDLE_ONLY. */
uint64_t pool_trim(struct pool *pool, struct pool_space *space, uint64_t bytes, bool idle_only);
/* Before BYTES are asked of the driver: makes room without waiting, if it is known that
 * nothing runs. */
void pool_make_room(struct pool *pool, struct pool_space *space, uint64_t bytes);
/* The same before a slab of which BYTES will be in use and MORE not, entered. False: that would
 * be more than may be kept, or than there is to spare. */
bool pool_may_allocate(struct pool *pool, struct pool_space *space, uint64_t bytes, uint64_t more);
void pool_decay(struct pool *pool, uint32_t now_s);
/* After an event failed: CONTEXT goes over to passing through, and the report says so. */
void pool_fail(struct pool *pool, struct pool_context *context);
uint64_t pool_device_bytes(int device);
void *pool_real(enum hook_id id);

/* ---- pool_slabs.c ---- */

/* Before the first request: see pool_fine_bins. */
void pool_slabs_init(void);
/* A part for BYTES, which are of BIN, of what lies unused in slabs; live. NULL: there is none. */
struct pool_block *pool_slab_carve(struct pool *pool, struct pool_space *space, unsigned int bin,
				   uint64_t bytes);
/* Call after pool_cache_remove_any() found nothing. Returns a part of a larger cached part, of
 * adjacent cached parts that it coalesces, or of a new slab. Returns NULL if slabs are not enabled
 * for BYTES, or if there is no memory. */
struct pool_block *pool_slab_alloc(struct pool *pool, struct pool_space *space,
				   struct pool_cache *cache, unsigned int bin, uint64_t bytes);
/* With the cache's lock. Unused is more than a little and less than what is in use: kept parts are
 * to be made one again before one for BYTES is taken, by which fewer slabs will do. With less that
 * is in vain, and with more parts are handed out as they lie, which is faster. */
bool pool_slab_is_fragmented(const struct pool_space *space, const struct pool_cache *cache,
			     uint64_t bytes);
/* BLOCK, which may serve BIN, is not to be cut for it: it is no part, or of that bin, or there is
 * plenty of what was taken beforehand. */
bool pool_slab_fits(const struct pool_block *block, unsigned int bin);
/* BLOCK is a part, of a slab from which requests for BYTES are served. */
bool pool_slab_serves(const struct pool_block *block, uint64_t bytes);
/* With the space's lock. BLOCK, a clean part in no bin, keeps what a part of BIN needs. */
void pool_slab_cut(struct pool_block *block, unsigned int bin);
/* BLOCK, a part in no bin, is part of nothing any more; the second: with the space's lock. */
void pool_slab_return(struct pool *pool, struct pool_block *block);
void pool_slab_return_locked(struct pool *pool, struct pool_block *block);
/* The part around ADDRESS of the slab that begins at BASE. */
bool pool_slab_lookup(struct pool *pool, const struct pool_block *base, uint64_t address,
		      struct pool_place *ret);
/* Slabs that are empty go back to the driver, up to BYTES, if nothing of them was used from
 * BEFORE_S on; also what was taken beforehand if ALL. */
uint64_t pool_slabs_trim(struct pool *pool, struct pool_space *space, uint64_t bytes,
			 uint32_t before_s, bool all);
/* SPACE's context is gone, and its slabs with it. */
void pool_slabs_drop(struct pool *pool, struct pool_space *space);

#endif
