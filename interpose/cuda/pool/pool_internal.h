/* SPDX-License-Identifier: MIT
 *
 * The data of the CUDA pool, and the functions that its files have for each other. pool_requests.c
 * allocates and frees, pool_cache.c holds cached blocks, pool_fence.c decides when a block is
 * clean, pool_native.c allocates from the driver and returns to it, pool_slabs.c carves parts of
 * larger blocks, pool_address_map.c looks up addresses. A block is clean if its fence is complete:
 * then the device no longer uses it. A native block is one that the driver allocated; a slab is a
 * native block that is divided into parts.
 *
 * Locking: callers of all these files have entered the recorder, unless a comment says otherwise.
 * So calls of a signal handler bypass the pool, and a thread never takes a lock twice. A lock of
 * fences is taken with no other lock held. All other locks nest in this order: a cache's, a
 * space's, the map's.
 */
#pragma once

#include <stdatomic.h>

#include "interpose/base/owner_lock.h"
#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/cuda_rows.h"
#include "interpose/cuda/pool/pool.h"
#include "interpose/cuda/pool/pool_bins.h"
#include "interpose/recorder/thread_state.h"

#define POOL_CONTEXTS 16 /* open at one time; blocks of further contexts are not pooled */
#define POOL_RING 7
#define POOL_FENCES 256 /* pending in one context */

/* Kinds of memory that are never mixed. */
enum pool_kind {
	POOL_DEVICE,
	POOL_PINNED, /* cuMemHostAlloc with flags 0 to 7; cuMemAllocHost is POOL_PINNED_PLAIN */
	POOL_PINNED_PLAIN = POOL_PINNED + 8,
	POOL_KINDS
};

/* LIVE -> CACHED when the application frees the block. CACHED -> LIVE when the pool reuses it.
 * CACHED -> RETURNING -> SPARE when it goes back to the driver. */
enum pool_state {
	POOL_SPARE,     /* a record without a block */
	POOL_LIVE,      /* the application uses it */
	POOL_CACHED,    /* freed; reused only after its fence is complete */
	POOL_RETURNING, /* the driver's free is under way */
	POOL_CARVED,    /* a slab: its parts are blocks of their own */
};

struct pool_slab;
struct pool_slab_row;
struct pool_space;

struct pool_block { /* the first cache line holds what each call reads */
	uint64_t address;
	uint64_t bytes;    /* that the application requested */
	uint64_t capacity; /* bytes of the block */
	uint64_t fence;    /* the block is clean once the context completed this fence */
	struct pool_space *space;
	struct pool_cache *owner; /* cache of the thread that allocated it last, or NULL */
	_Atomic uint32_t state;   /* enum pool_state */
	uint32_t freed_s;         /* when it was freed, in seconds of the recorder */
	uint16_t bin;
	_Atomic uint8_t queue_depth; /* blocks in `returned` before it */
	uint8_t never_reuse;      /* 1 + enum ledger_pool_reason, or 0 */
	uint32_t node;            /* of a part: its number in the slab's range allocator */
	struct pool_slab *slab;   /* of a part, or NULL */
	struct block_hint hint; /* the recorder's hint for this address */
	/* Links of the list that has the block: a bin of its space, oldest first, or (only `next`)
	 * the list `returned` of a cache, newest first. */
	struct pool_block *next, *previous;
} __attribute__((aligned(64)));

struct pool_ring {
	uint8_t first, count;
	uint8_t foreign_quota; /* blocks of other threads to cache here instead of returning them */
	struct pool_block *block[POOL_RING]; /* oldest at `first` */
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct pool_ring) == 64, "a pool_ring fills one cache line");

/* What one thread caches of one space. Other threads take the lock to trim and to scan. They push
 * blocks of this thread that they free on `returned`; any thread may detach that whole list. */
struct pool_cache {
	struct owner_lock lock; /* the thread's; see owner_lock.h */
	bool single_thread;     /* no other thread shares the cache */
	bool last_was_alloc;
	int64_t cached, freed, waste; /* bytes since the last pool_cache_count() */
	uint64_t hits, frees, shared;
	uint64_t used[POOL_BIN_WORDS]; /* a bit for each ring that may have blocks */
	struct pool_ring ring[POOL_BINS];
	_Alignas(64) _Atomic(struct pool_block *) returned;
} __attribute__((aligned(64)));

struct pool_fence {
	uint64_t number;
	void *event;
	int64_t freed[POOL_KINDS]; /* bytes of each space that were freed before its first block */
	bool covers_later_work;    /* it covers work submitted after its first block was freed */
	unsigned int waiters;      /* threads in cuEventSynchronize */
};

/* The fences of a context. Their numbers have no gaps; they complete in order. */
struct pool_fences {
	struct lock lock;
	_Atomic uint64_t last_issued;
	_Atomic uint64_t completed;  /* all fences up to this number */
	_Atomic uint64_t epoch;      /* 1 + the submit epoch that last_issued covers, or 0 */
	_Atomic uint64_t idle_epoch; /* 1 + an epoch in which the context was idle, or 0 */
	/* True if blocks wait for fence last_issued + 1, which has no event yet: a capture is in
	 * progress, or further frees will share the fence. */
	_Atomic bool pending_fence;
	/* of the frees that wait for the pending fence */
	uint64_t pending_first_epoch, pending_last_epoch;
	unsigned int pending_epochs;                      /* different epochs of these frees */
	_Atomic int64_t pending_bytes;
	_Atomic uint32_t kinds; /* a bit for each kind of memory that a thread ever cached */
	int64_t pending_freed[POOL_KINDS]; /* for pool_fence.freed */
	/* Number of epochs that may share a fence, and frees without a miss since that number
	 * changed. */
	unsigned int batch_limit, unmissed_frees;
	unsigned int first, count, spares;
	struct pool_fence ring[POOL_FENCES];
	void *spare[POOL_FENCES]; /* events to use again */
};

struct pool_context;

/* One kind of memory of one context. */
struct pool_space {
	struct pool_context *context;
	enum pool_kind kind;
	struct lock growing; /* while a slab is allocated; taken with no other lock held */
	struct lock lock;    /* protects what follows, up to `reserved` */
	uint64_t filled[POOL_BIN_WORDS];
	struct { struct pool_block *oldest, *newest; } bin[POOL_BINS];
	struct pool_slab_row *slab; /* oldest first */
	unsigned int slabs_room;
	_Atomic unsigned int slabs;
	_Atomic uint64_t slab_bytes; /* of slabs that were not preallocated */
	/* Bytes. `cached` and `freed` lack what threads have not added yet. */
	_Atomic int64_t reserved, cached, freed, waste;
	_Atomic int64_t preallocated; /* part of `reserved`: GPULEAK_POOL_PREALLOC */
	/* Bytes over the limit that lie in partly used slabs, and `freed` when that was found. */
	_Atomic uint64_t unreclaimable;
	_Atomic int64_t unreclaimable_freed;
	/* Consecutive scans of others' caches that found nothing, and scans still to skip. */
	_Atomic uint32_t failed_scans, skip_scans;
	uint64_t peak_used; /* changes atomically: pools_raise() */
	_Atomic uint64_t lag;            /* the most bytes that recently waited for the device */
	_Atomic uint64_t lag_checked_ns; /* the last check of `lag` without a new maximum */
	_Atomic uint32_t native_count;   /* native allocations, for the checks of free_bytes */
	_Atomic int64_t free_bytes;      /* of the device at the last check, adjusted since */
	struct ledger_pool *record;      /* never NULL; several spaces may share one */
	_Atomic int64_t published[5];    /* this space's share of the record's sums */
	struct ledger_pool local_record; /* used if the ledger has no room */
};

struct pool_context {
	_Atomic uint64_t handle; /* 0 = not in use */
	_Atomic bool open;       /* blocks may be cached and reused */
	_Atomic bool failed;     /* an event failed: all blocks go back to the driver */
	int device;
	uint64_t total; /* bytes of the device */
	/* Bytes. If the blocks that a thread caches grow or shrink by this much, the thread adds
	 * the change to the sums of its pool_space. */
	uint64_t flush;
	bool strict;    /* a free waits for its fence */
	bool by_sync;   /* the driver has no cuCtxRecordEvent: cuCtxSynchronize instead of fences */
	unsigned int event_flags;
	_Atomic bool prealloc_tried;
	CUstream stream; /* on which clean blocks are freed */
	_Atomic unsigned int stream_users; /* threads that have frees pending on it */
	struct pool_fences fences;
	struct pool_space space[POOL_KINDS];
} __attribute__((aligned(64)));

struct pool_map_table;

struct pool {
	struct lock making; /* protects the creation of contexts */
	struct arena *arena;
	struct recorder *recorder;
	bool single_thread; /* owner_lock_possible() */
	struct {
		struct lock lock;
		_Atomic(struct pool_map_table *) table;
	} map;
	struct lock spare_lock;
	/* Records without a block. The dead ones are of the context that ended last. */
	struct pool_block *spare, *dead;
	struct pool_slab *dead_slabs; /* of that context; under `making` */
	_Atomic uint32_t next_decay_s;
	struct pool_context context[POOL_CONTEXTS];
	_Atomic(struct pool_cache *) cache[THREAD_STATES][POOL_CONTEXTS][POOL_KINDS];
};

/* Returns a new pool of RECORDER, or the one that another thread made meanwhile; NULL if memory is
 * short. In pool_requests.c. */
struct pool *pool_make(struct recorder *recorder);

/* Returns VALUE, or 0 if it is negative: threads count late, so a sum may be below zero. */
static inline uint64_t pool_or_zero(int64_t value)
{
	return value > 0 ? (uint64_t)value : 0;
}

/* ---- pool_driver.c: the driver calls that several files of the pool make. Each function may be
 * called on any thread, with the recorder entered or not. ---- */

/* Between these two, the thread may make calls that would otherwise invalidate a capture of another
 * thread. cuCtxRecordEvent and cuCtxSynchronize still invalidate it. pool_relax() returns the mode
 * for pool_unrelax(). */
int pool_relax(void);
void pool_unrelax(int mode);
/* Makes CONTEXT current until pool_pop_context(), which takes *RET_PUSHED. Returns false if the
 * driver refused. */
bool pool_push_context(struct pool_context *context, bool *ret_pushed);
void pool_pop_context(bool pushed);

/* Waits for STREAM, even while another thread captures a stream. */
void pool_wait_for_stream(CUstream stream);

/* ---- pool_address_map.c: the table from addresses to blocks, and the records of blocks ---- */

/* Returns the block that begins at ADDRESS, or NULL. Takes no lock. */
struct pool_block *pool_map_lookup(struct pool *pool, uint64_t address);
/* Inserts BLOCK, in place of another block at its address. Returns false if memory is short. */
bool pool_map_insert(struct pool *pool, struct pool_block *block);
void pool_map_remove(struct pool *pool, struct pool_block *block);
/* Removes all blocks of CONTEXT, which has ended. */
void pool_map_drop(struct pool *pool, struct pool_context *context);

/* Returns an unused record, or NULL if memory is short. */
struct pool_block *pool_block_new(struct pool *pool);
/* Makes BLOCK's record available to pool_block_new(). Its memory is never used for anything but
 * records. */
void pool_block_recycle(struct pool *pool, struct pool_block *block);

/* ---- pool_native.c: memory of the driver, and the limit of cached bytes ---- */

/* An application's free: the driver's own call. */
struct pool_native_free {
	void *real;
	uint64_t now_ns; /* when it began, see recorder_time() */
	bool async; /* cuMemFreeAsync, on STREAM */
	CUstream stream;
	bool elsewhere; /* STREAM is not a stream of the block's context */
};

/* Allocates a block for BIN by REAL, the driver's function. It is a live block of BYTES if there
 * is room for its record. Call with the recorder not entered. Returns the driver's result. */
CUresult pool_native_alloc(struct pool *pool, struct pool_space *space, void *real,
			   unsigned int bin, uint64_t bytes, uint64_t *ret_address);
/* Allocates a block of exactly BYTES for a slab. Returns NULL on failure. */
struct pool_block *pool_native_alloc_slab(struct pool *pool, struct pool_space *space, void *real,
					  uint64_t bytes);
/* Returns a slab's block to the driver without a wait for other streams. Returns false if the
 * driver refused. */
bool pool_native_return_slab(struct pool *pool, struct pool_block *block);
/* Creates the stream of CONTEXT on which clean blocks are freed. It takes some device memory. */
void pool_native_init(struct pool_context *context);
/* Call after the context of BLOCKS, linked by `next`, has ended. Frees blocks that outlive it. */
void pool_native_free_outlived(const struct pool_block *blocks);
/* Returns BLOCK, which is in no bin, to the driver: by NATIVE's call, or by the usual one if NATIVE
 * is NULL. Returns the driver's result. On failure the block is unchanged. */
CUresult pool_native_return(struct pool *pool, struct pool_block *block,
			    const struct pool_native_free *native);

/* Call after the cached bytes changed. Returns what exceeds the limit to the driver. With MAY_WAIT,
 * also waits until the bytes that wait for fences are below their limit. */
void pool_trim_to_limit(struct pool *pool, struct pool_space *space, bool may_wait);
/* Returns up to BYTES of clean blocks to the driver, the oldest first. Frees of pinned and managed
 * memory wait for the device: with IDLE_ONLY these are made only if the context is idle. Returns
 * the bytes. */
uint64_t pool_trim(struct pool *pool, struct pool_space *space, uint64_t bytes, bool idle_only);
/* Call before BYTES are allocated from the driver, with the recorder not entered. Trims the cache
 * without a wait. */
void pool_make_room(struct pool *pool, struct pool_space *space, uint64_t bytes);
/* Call before a slab is allocated of which BYTES will be in use and MORE will be cached. Trims as
 * pool_make_room() does. Returns false if the slab would exceed the limit or the free memory. */
bool pool_may_allocate(struct pool *pool, struct pool_space *space, uint64_t bytes, uint64_t more);
/* Call once a second, at NOW_S. Returns blocks that were unused for GPULEAK_POOL_DECAY seconds. */
void pool_decay(struct pool *pool, uint32_t now_s);
/* Call after an event failed. Stops pooling in CONTEXT, and writes that into the ledger. */
void pool_fail(struct pool *pool, struct pool_context *context);

/* ---- pool_slabs.c ---- */

/* Sets pool_fine_bins. Call before the first request. */
void pool_slabs_init(void);
/* Returns a live part for BYTES, which BIN serves, of the unused space in slabs, or NULL. */
struct pool_block *pool_slab_carve(struct pool *pool, struct pool_space *space, unsigned int bin,
				   uint64_t bytes);
/* Call after pool_cache_remove_any() found nothing. Returns a part of a larger cached part, of
 * adjacent cached parts that it coalesces, or of a new slab. Returns NULL if slabs are not enabled
 * for BYTES, or if there is no memory. */
struct pool_block *pool_slab_alloc(struct pool *pool, struct pool_space *space,
				   struct pool_cache *cache, unsigned int bin, uint64_t bytes);
/* Locking: needs the cache's lock. Returns true if the slabs are fragmented enough that coalescing
 * cached parts first will save a new slab. With little free space coalescing finds nothing. With
 * much free space it is not worth the time. */
bool pool_slab_is_fragmented(const struct pool_space *space, const struct pool_cache *cache,
			     uint64_t bytes);
/* Returns true if BLOCK, which may serve BIN, needs no pool_slab_cut(): it is not a part, it is of
 * BIN, or much preallocated memory is unused. */
bool pool_slab_fits(const struct pool_block *block, unsigned int bin);
/* Returns true if BLOCK is a part, of a slab that serves requests for BYTES. */
bool pool_slab_serves(const struct pool_block *block, uint64_t bytes);
/* Locking: needs the space's lock. Shrinks BLOCK, a clean part in no bin, to the size of BIN. */
void pool_slab_cut(struct pool_block *block, unsigned int bin);
/* Return BLOCK, a part in no bin, to its slab. Locking: the second needs the space's lock. */
void pool_slab_return(struct pool *pool, struct pool_block *block);
void pool_slab_return_locked(struct pool *pool, struct pool_block *block);
/* Stores the part around ADDRESS of the slab that begins at BASE. Returns true. */
bool pool_slab_lookup(struct pool *pool, const struct pool_block *base, uint64_t address,
		      struct pool_place *ret);
/* Returns empty slabs to the driver, up to BYTES, if no part of them was freed at BEFORE_S or
 * later. With ALL, also preallocated slabs. Returns the bytes. */
uint64_t pool_slabs_trim(struct pool *pool, struct pool_space *space, uint64_t bytes,
			 uint32_t before_s, bool all);
/* Call after SPACE's context has ended. Drops its slabs. */
void pool_slabs_drop(struct pool *pool, struct pool_space *space);
