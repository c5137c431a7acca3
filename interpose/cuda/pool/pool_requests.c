/* SPDX-License-Identifier: MIT
 *
 * A pooled allocation and free, step by step, and the pool's contexts. On the hot path a
 * thread takes only its own cache's lock, and makes no driver call except the query of the
 * current context. Must not decide when a block is clean (pool_fence.c) or how much may be
 * cached (pool_native.c).
 */
#include "interpose/cuda/pool/pool_internal.h"
#include "interpose/cuda/pool/pool_cache.h"
#include "interpose/cuda/pool/pool_fence.h"

#include <string.h>

#include "interpose/base/config.h"

#define FLUSHES_BEHIND 32 /* times context->flush: bytes that may wait between two counts */
#define NS_PER_S 1000000000u
#define RANGE_START_ADDR 11 /* CUpointer_attribute */

static uint64_t contexts_trim_all(bool may_wait);

/* ---- the pool and its contexts ---- */

struct pool *pool_make(struct recorder *recorder)
{
	struct pool *pool = NULL, *recorded = arena_take(&recorder->arena, sizeof(*recorded));

	if (!recorded)
		return NULL;
	recorded->arena = &recorder->arena;
	recorded->recorder = recorder;
	recorded->single_thread = owner_lock_possible();
	pool_slabs_init();
	if (atomic_compare_exchange_strong(&recorder->pool, &pool, recorded))
		return recorded;
	arena_give(&recorder->arena, recorded, sizeof(*recorded));
	return pool;
}

/* Returns RECORDER's pool. Makes it on the first call; NULL if memory is short. */
static inline struct pool *pool_of(struct recorder *recorder)
{
	struct pool *pool = atomic_load_explicit(&recorder->pool, memory_order_acquire);

	return __builtin_expect(pool != NULL, 1) ? pool : pool_make(recorder);
}

static const char *kind_name(enum pool_kind kind)
{
	return kind == POOL_DEVICE ? "device" : "pinned";
}

static void space_init(struct pool_context *context, enum pool_kind kind)
{
	struct pool_space *space = &context->space[kind];
	struct ledger_pool *record =
		pools_record_row("CUDA", kind_name(kind),
				 kind == POOL_DEVICE ? context->device : -1);

	space->context = context;
	space->kind = kind;
	space->record = record ? record : &space->local_record;
	shared_store(space->record->mode, context->strict ? OPTION_POOL_STRICT : OPTION_POOL_FAST);
}

/* Locking: needs the lock `making`. */
static struct pool_context *context_create(struct pool *pool, uint64_t handle, int device)
{
	struct pool_context *context = NULL;

	for (unsigned int i = 0; i < POOL_CONTEXTS && !context; i++)
		if (!atomic_load(&pool->context[i].handle))
			context = &pool->context[i];
	if (!context)
		return NULL;
	context->device = device;
	context->total = cuda_device_total(device);
	context->flush = context->total / 4096 > 1u << 20 ? context->total / 4096 : 1u << 20;
	context->event_flags = 0;
	context->stream = NULL;
	atomic_store(&context->prealloc_tried, false);
	atomic_store(&context->failed, false);
	atomic_store(&context->handle, handle);
	if (!pool_fences_init(context)) {
		atomic_store(&context->handle, 0);
		return NULL;
	}
	context->strict = context->by_sync || config.pool == OPTION_POOL_STRICT;
	pool_native_init(context);
	for (int kind = 0; kind < POOL_KINDS; kind++)
		space_init(context, kind);
	atomic_store(&context->open, true);
	return context;
}

static struct pool_context *context_lookup(struct pool *pool, uint64_t handle)
{
	for (unsigned int i = 0; i < POOL_CONTEXTS; i++)
		if (atomic_load(&pool->context[i].handle) == handle)
			return &pool->context[i];
	return NULL;
}

static COLD struct pool_context *context_for_slow(struct pool *pool, uint64_t handle, int device)
{
	struct pool_context *context = context_lookup(pool, handle);

	if (!context) {
		HOLD(&pool->making);
		context = context_lookup(pool, handle);
		if (!context)
			context = context_create(pool, handle, device);
	}
	thread_self.pool = pool;
	thread_self.pool_context = context;
	return context;
}

static HOT struct pool_context *context_for(struct pool *pool, uint64_t handle, int device)
{
	struct pool_context *context = thread_self.pool_context;

	if (__builtin_expect(context && thread_self.pool == pool &&
				     atomic_load_explicit(&context->handle,
							  memory_order_relaxed) == handle,
			     1))
		return context;
	return context_for_slow(pool, handle, device);
}

/* Returns the pool with the recorder entered, or NULL with the recorder not entered. */
static struct pool *pool_enter(void)
{
	struct recorder *recorder = pool_on && recorder_now() ? recorder_enter() : NULL;
	struct pool *pool = recorder ? atomic_load(&recorder->pool) : NULL;

	if (recorder && !pool)
		recorder_leave();
	return pool;
}

/* ---- counting ---- */

static uint32_t pool_now_s(struct pool *pool)
{
	return (uint32_t)(recorder_time(pool->recorder) / NS_PER_S);
}

static COLD void space_trim_and_publish(struct pool *pool, struct pool_space *space, bool may_wait)
{
	uint32_t now_s = pool_now_s(pool);

	pool_trim_to_limit(pool, space, may_wait);
	pool_publish(space);
	if (now_s >= atomic_load_explicit(&pool->next_decay_s, memory_order_relaxed)) {
		atomic_store(&pool->next_decay_s, now_s + 1);
		pool_decay(pool, now_s);
	}
}

/* Locking: needs the cache's lock. Returns true, and counts, if many freed bytes wait for work.
 * They may pile up even if a thread allocates and frees in turn, because the blocks differ. */
static COLD bool cache_count_if_pending(struct pool_space *space, struct pool_cache *cache)
{
	bool due = cache->freed >= FLUSHES_BEHIND * (int64_t)space->context->flush;

	if (due)
		pool_cache_count(space, cache);
	return due;
}

/* ---- allocation ---- */

static HOT void block_hand_out(struct pool_cache *cache, struct pool_block *block, uint64_t bytes)
{
	block->bytes = bytes;
	block->owner = cache;
	atomic_store_explicit(&block->hint.recorded, false, memory_order_relaxed);
	cache->cached -= (int64_t)block->capacity;
	cache->waste += (int64_t)(block->capacity - bytes);
	cache->hits++;
	atomic_store_explicit(&block->state, POOL_LIVE, memory_order_release);
}

/* Called if CACHE has no block of BIN that may be reused now. PENDING is the fence of its oldest
 * block of BIN, or 0. */
static COLD struct pool_block *block_alloc_slow(struct pool *pool, struct pool_space *space,
						struct pool_cache *cache, unsigned int bin,
						uint64_t pending, uint64_t bytes)
{
	struct pool_block *block = pool_cache_remove_returned(space, cache, bin, &pending);

	if (!block)
		block = pool_cache_remove_older(space, cache, bin);
	if (pending && !block) {
		pool_fence_query(space->context, pending);
		pool_cache_enter(cache);
		block = pool_cache_remove_own(space->context, cache, bin, &pending);
		pool_cache_leave(cache);
	}
	if (!block && atomic_load_explicit(&space->cached, memory_order_relaxed) > 0)
		pool_fences_poll(space->context, false);
	if (!block)
		block = pool_cache_remove_any(pool, space, cache, bin, bytes);
	if (!block)
		block = pool_slab_alloc(pool, space, cache, bin, bytes);
	if (!block)
		pool_fences_note_miss(space->context);
	if (block) {
		pool_cache_enter(cache);
		block_hand_out(cache, block, bytes);
		pool_cache_leave(cache);
	}
	return block;
}

static HOT struct pool_block *block_alloc(struct pool *pool, struct pool_space *space,
					  uint64_t bytes, unsigned int bin)
{
	struct pool_cache *cache = pool_cache_here(pool, space);
	struct pool_block *block;
	uint64_t pending;

	if (!cache)
		return NULL;
	pool_cache_enter(cache);
	block = pool_cache_remove_own(space->context, cache, bin, &pending);
	if (block) {
		block_hand_out(cache, block, bytes);
		pool_cache_count_if_due(space, cache, false); /* the excess is returned at a free */
	}
	pool_cache_leave(cache);
	return block ? block : block_alloc_slow(pool, space, cache, bin, pending, bytes);
}

/* Allocates by REAL, the driver's function. If memory ran out, tries again after the pool returned
 * some to the driver. */
static COLD CUresult block_alloc_native(struct pool *pool, struct pool_space *space, void *real,
					uint64_t bytes, unsigned int bin, uint64_t *ret_address)
{
	bool relieved = false;
	CUresult r;

	pool_make_room(pool, space, pool_bytes_of_bin(bin));
	for (;; relieved = true) {
		r = pool_native_alloc(pool, space, real, bin, bytes, ret_address);
		if (r != CUDA_ERROR_OUT_OF_MEMORY || !pool_relieve(space->context->device))
			break;
	}
	if (relieved && r == CUDA_SUCCESS)
		pools_count(&space->record->rescued, 1);
	return r;
}

/* Returns the space of the current context with the recorder entered. Returns NULL if the driver
 * must be called instead. */
static HOT struct pool_space *space_enter(struct call *call, enum pool_kind kind,
					  struct pool **ret_pool)
{
	struct pool_context *context;
	struct recorder *recorder;

	if (!cuda_look_at_context() || !thread_self.owner || thread_self.device < 0 ||
	    !(recorder = call->inside = call_begin(call)))
		return NULL;
	*ret_pool = pool_of(recorder);
	context = *ret_pool ? context_for(*ret_pool, thread_self.owner, thread_self.device) : NULL;
	if (context && atomic_load_explicit(&context->open, memory_order_relaxed))
		return &context->space[kind];
	call_leave(call);
	return NULL;
}

/* Takes a cached block, or allocates one for the pool from the driver. Returns true and stores the
 * block's address and CUDA_SUCCESS. Returns false if neither worked and the wrapper must call the
 * driver. */
static HOT bool pool_allocate(struct call *call, enum pool_kind kind, uint64_t bytes,
			      uint64_t *ret_address, CUresult *ret)
{
	struct pool *pool;
	struct pool_space *space;
	struct pool_block *block;
	unsigned int bin;

	if (!bytes || bytes > POOL_BYTES_MAX)
		return false;
	space = space_enter(call, kind, &pool);
	if (!space)
		return false;
	bin = pool_bin_of(bytes);
	block = block_alloc(pool, space, bytes, bin);
	if (__builtin_expect(block != NULL, 1)) {
		*ret_address = block->address;
		*ret = CUDA_SUCCESS;
		call->hint = &block->hint;
		return true; /* still inside the recorder, for record_made_pooled() */
	}
	call_leave(call);
	*ret = block_alloc_native(pool, space, call->driver, bytes, bin, ret_address);
	return *ret == CUDA_SUCCESS;
}

HOT_CALL CUresult pool_cuMemAlloc_v2(struct call *call, CUdeviceptr *address, size_t bytes)
{
	uint64_t made;
	CUresult r;

	if (!address || !pool_allocate(call, POOL_DEVICE, bytes, &made, &r))
		return DRIVER(cuMemAlloc_v2, call->driver)(address, bytes);
	*address = made;
	return r;
}

static __attribute__((noinline)) bool pool_allocate_pinned(struct call *call, enum pool_kind kind,
							   uint64_t bytes, uint64_t *ret_address,
							   CUresult *ret)
{
	return pool_allocate(call, kind, bytes, ret_address, ret);
}

CUresult pool_cuMemHostAlloc(struct call *call, void **pointer, size_t bytes, unsigned int flags)
{
	uint64_t made;
	CUresult r;

	if (!pointer || flags > 7 ||
	    !pool_allocate_pinned(call, POOL_PINNED + flags, bytes, &made, &r))
		return DRIVER(cuMemHostAlloc, call->driver)(pointer, bytes, flags);
	*pointer = (void *)(uintptr_t)made;
	return r;
}

CUresult pool_cuMemAllocHost_v2(struct call *call, void **pointer, size_t bytes)
{
	uint64_t made;
	CUresult r;

	if (!pointer || !pool_allocate_pinned(call, POOL_PINNED_PLAIN, bytes, &made, &r))
		return DRIVER(cuMemAllocHost_v2, call->driver)(pointer, bytes);
	*pointer = (void *)(uintptr_t)made;
	return r;
}

/* ---- free ---- */

/* Returns true if the driver must be called, since its result is an error: the current context was
 * destroyed, or the driver has shut down. */
static COLD bool driver_answers(struct call *call)
{
	used_cuCtxGetCurrent *get;
	CUcontext context = NULL;
	uint64_t handle;
	int device;

	if (call->inside) /* the following calls may enter the recorder */
		call_leave(call);
	cuda_current_context(&handle, &device);
	if (__builtin_expect(handle && device >= 0, 1))
		return false;
	get = CUDA_USED(cuCtxGetCurrent);
	return !get || get(&context) != CUDA_SUCCESS || context;
}

static HOT bool driver_must_answer(struct call *call)
{
	return __builtin_expect(atomic_load_explicit(&cuda_context_doubtful, memory_order_relaxed),
				0) &&
	       driver_answers(call);
}

/* Returns true if BLOCK, which the application has freed, may be cached. */
static bool block_may_cache(const struct pool_block *block)
{
	const struct pool_context *context = block->space->context;

	return !block->never_reuse && atomic_load_explicit(&context->open, memory_order_relaxed);
}

/* Returns false if the context is ending, or if there is no memory for a cache. */
static HOT bool block_insert(struct pool *pool, struct pool_block *block,
			     enum pool_fence_origin origin, bool may_wait)
{
	struct pool_space *space = block->space;
	struct pool_cache *cache = pool_cache_here(pool, space);
	bool open, due = false;

	if (!cache) {
		pools_count_reason(space->record, LEDGER_POOL_NO_MEMORY);
		return false;
	}
	pool_cache_enter(cache);
	open = atomic_load_explicit(&space->context->open, memory_order_relaxed);
	if (open) {
		cache->cached += (int64_t)block->capacity;
		cache->freed += (int64_t)block->capacity;
		cache->waste -= (int64_t)(block->capacity - block->bytes);
		cache->frees++;
		cache->shared += origin != POOL_FENCE_NEW;
		pool_cache_insert(cache, block);
		due = pool_cache_count_if_due(space, cache, true) ||
		      (origin != POOL_FENCE_COVERED && cache_count_if_pending(space, cache));
	}
	pool_cache_leave(cache);
	if (__builtin_expect(due, 0))
		space_trim_and_publish(pool, space, may_wait);
	return open;
}

/* Caches BLOCK, which NATIVE's call has just freed. Returns false if the driver must free it. */
static HOT bool block_cache(struct pool *pool, struct pool_block *block,
			    const struct pool_native_free *native)
{
	struct pool_context *context = block->space->context;
	enum pool_fence_origin origin;

	if (!block_may_cache(block) || (native->elsewhere && !block->slab))
		return false;
	if (native->elsewhere) /* the driver cannot free a part on that stream */
		pool_wait_for_stream(native->stream);
	block->fence = pool_fence_for_free(block, context->strict, &origin);
	if (context->strict && !native->async)
		pool_fence_wait(context, block->fence);
	if (__builtin_expect(atomic_load_explicit(&context->failed, memory_order_relaxed), 0)) {
		pool_fail(pool, context);
		return false;
	}
	block->freed_s = (uint32_t)(native->now_ns / NS_PER_S);
	return block_insert(pool, block, origin, !native->async);
}

enum claim { CLAIMED, CLAIMED_BEFORE, NOT_OURS };

/* Claims BLOCK for this free: of two concurrent frees only one gets it. RECORDED: this call
 * removed the block from the recorder's table, so no exchange is needed. A free of another kind
 * of memory claims no block. The driver refuses that call; if the block was freed before, the
 * pool refuses it. */
static HOT enum claim block_claim(struct pool_block *block, bool pinned, bool recorded)
{
	uint32_t state = atomic_load_explicit(&block->state, memory_order_acquire);
	bool other_kind = pinned != (block->space->kind != POOL_DEVICE);

	if (other_kind)
		return state == POOL_SPARE || state == POOL_LIVE ? NOT_OURS : CLAIMED_BEFORE;
	if (recorded && state == POOL_LIVE) {
		atomic_store_explicit(&block->state, POOL_CACHED, memory_order_release);
		return CLAIMED;
	}
	if (atomic_load_explicit(&block->hint.recorded, memory_order_relaxed))
		return state == POOL_SPARE ? NOT_OURS : CLAIMED_BEFORE;
	if (state == POOL_LIVE &&
	    atomic_compare_exchange_strong_explicit(&block->state, &state, POOL_CACHED,
						    memory_order_acq_rel, memory_order_acquire))
		return CLAIMED;
	return state == POOL_SPARE ? NOT_OURS : CLAIMED_BEFORE;
}

/* Returns the block of HINT, or NULL. */
static HOT struct pool_block *block_of(struct block_hint *hint)
{
	return hint ? (void *)((char *)hint - offsetof(struct pool_block, hint)) : NULL;
}

/* BLOCK, which must not be reused, was freed. */
static COLD void block_count_never_reuse(const struct pool_block *block)
{
	pools_count_reason(block->space->record,
			   (enum ledger_pool_reason)(block->never_reuse - 1));
}

/* Returns to the driver a block that may not be cached. On failure it stays live. */
static COLD CUresult block_return_native(struct pool *pool, struct pool_block *block,
					 const struct pool_native_free *native)
{
	struct pool_space *space = block->space;
	int64_t unasked = (int64_t)(block->capacity - block->bytes);
	CUresult r;

	if (block->never_reuse)
		block_count_never_reuse(block);
	r = pool_native_return(pool, block, native);
	if (r == CUDA_SUCCESS)
		atomic_fetch_sub(&space->waste, unasked);
	else
		atomic_store(&block->state, POOL_LIVE);
	return r;
}

/* Returns a part that may not be cached to its slab. The driver cannot free a part, and work may
 * still use it: waits as the driver's free would. If it cannot wait, or if others may use the
 * part permanently, the part is lost. After an event failed no wait is needed: no part is reused
 * any more. */
static COLD void block_return_part(struct pool *pool, struct pool_block *block)
{
	struct pool_context *context = block->space->context;
	enum pool_fence_origin origin;

	if (block->never_reuse) {
		block_count_never_reuse(block);
		return;
	}
	atomic_fetch_add(&block->space->cached, (int64_t)block->capacity);
	atomic_fetch_sub(&block->space->waste, (int64_t)(block->capacity - block->bytes));
	if (pool_fence_wait(context, pool_fence_for_free(block, true, &origin)) ||
	    atomic_load(&context->failed))
		pool_slab_return(pool, block);
}

/* Returns true if ADDRESS is a part. The recorder cannot be entered, and the driver knows only
 * whole slabs: the part is lost. */
static COLD bool is_lost_part(uint64_t address, CUresult *ret)
{
	struct recorder *recorder = recorder_last();
	const struct pool_block *block =
		recorder ? block_of(pool_block_hint(recorder, address)) : NULL;

	if (!block || block->address != address || !block->slab)
		return false;
	*ret = CUDA_SUCCESS;
	return true;
}

/* Frees ADDRESS in place of NATIVE's call. HINT: of the block that the recorder removed from its
 * table for CALL, or NULL. Returns false if the driver must be called. */
static HOT bool block_free(struct call *call, struct block_hint *hint,
			   const struct pool_native_free *native, bool pinned, uint64_t address,
			   CUresult *ret)
{
	struct recorder *recorder = call->inside ? call->inside
						 : (call->inside = recorder_enter());
	struct pool_block *recorded = block_of(hint), *block = recorded;
	enum claim claim = NOT_OURS;
	struct pool *pool;
	bool cached = false;

	if (!recorder)
		return is_lost_part(address, ret);
	pool = pool_of(recorder);
	if (__builtin_expect(!block, 0))
		block = pool ? pool_map_lookup(pool, address) : NULL;
	if (block)
		claim = block_claim(block, pinned, recorded != NULL);
	if (claim == CLAIMED)
		cached = block_cache(pool, block, native);
	if (claim == CLAIMED && !cached && block->slab) {
		block_return_part(pool, block);
		cached = true;
	}
	if (__builtin_expect(cached && recorded, 1)) {
		*ret = CUDA_SUCCESS;
		return true; /* still inside the recorder, for record_freed() */
	}
	call_leave(call);
	*ret = claim == CLAIMED_BEFORE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	if (claim == CLAIMED && !cached)
		*ret = block_return_native(pool, block, native);
	return claim != NOT_OURS;
}

HOT_CALL CUresult pool_cuMemFree_v2(struct call *call, const struct freeing *freeing,
				    CUdeviceptr address)
{
	const struct pool_native_free native = {
		.real = call->driver, .now_ns = call->now_ns,
	};
	CUresult r;

	if (!address || driver_must_answer(call) ||
	    !block_free(call, freeing->hint, &native, false, address, &r))
		return DRIVER(cuMemFree_v2, call->driver)(address);
	return r;
}

static __attribute__((noinline)) bool block_free_noinline(struct call *call,
							  struct block_hint *hint,
							  const struct pool_native_free *native,
							  bool pinned, uint64_t address,
							  CUresult *ret)
{
	return block_free(call, hint, native, pinned, address, ret);
}

CUresult pool_cuMemFreeHost(struct call *call, const struct freeing *freeing, void *pointer)
{
	const struct pool_native_free native = {
		.real = call->driver, .now_ns = call->now_ns,
	};
	CUresult r;

	if (!pointer || driver_must_answer(call) ||
	    !block_free_noinline(call, freeing->hint, &native, true, (uint64_t)(uintptr_t)pointer,
				 &r))
		return DRIVER(cuMemFreeHost, call->driver)(pointer);
	return r;
}

/* Returns true if STREAM belongs to the context of the block at ADDRESS. The block's fences do
 * not cover work on streams of other contexts: the driver handles these, and invalid streams. */
static bool is_stream_of_owner(uint64_t address, CUstream stream)
{
	used_cuStreamGetCtx *query = CUDA_USED(cuStreamGetCtx);
	CUcontext context = NULL;
	struct pool *pool = pool_enter();
	struct pool_block *block = pool ? pool_map_lookup(pool, address) : NULL;
	uint64_t owner = block ? atomic_load(&block->space->context->handle) : 0;

	if (pool)
		recorder_leave();
	return query && query(stream, &context) == CUDA_SUCCESS &&
	       (uint64_t)(uintptr_t)context == owner;
}

/* Never waits, in any mode, because the driver's call does not wait. */
CUresult pool_cuMemFreeAsync(struct call *call, const struct freeing *freeing, CUdeviceptr address,
			     CUstream stream)
{
	struct pool_native_free native = {
		call->driver, call->now_ns, true, stream, !is_stream_of_owner(address, stream),
	};
	CUresult r;

	if (!address || driver_must_answer(call) || cuda_is_captured(call->hook, stream) ||
	    !block_free_noinline(call, freeing->hint, &native, false, address, &r))
		return DRIVER(cuMemFreeAsync, call->driver)(address, stream);
	return r;
}

void pool_trim_now(bool may_wait)
{
	if (pool_trim_due())
		contexts_trim_all(may_wait);
}

/* ---- end of contexts ---- */

void pool_context_ending(uint64_t handle)
{
	LEAVE_AT_END struct pool *pool = handle ? pool_enter() : NULL;
	struct pool_context *context = pool ? context_lookup(pool, handle) : NULL;

	if (context)
		atomic_store(&context->open, false);
}

static void context_drop(struct pool *pool, struct pool_context *context)
{
	for (int kind = 0; kind < POOL_KINDS; kind++) {
		struct pool_space *space = &context->space[kind];

		pool_cache_collect(pool, space);
		lock_take(&space->lock);
		memset(space->filled, 0, sizeof(space->filled));
		memset(space->bin, 0, sizeof(space->bin));
		lock_give(&space->lock);
		pool_slabs_drop(pool, space);
		atomic_store(&space->reserved, 0);
		atomic_store(&space->cached, 0);
		atomic_store(&space->freed, 0);
		atomic_store(&space->waste, 0);
		atomic_store(&space->preallocated, 0);
		atomic_store(&space->unreclaimable, 0);
		atomic_store(&space->unreclaimable_freed, 0);
		atomic_store(&SHARED(space->peak_used), 0);
		atomic_store(&space->lag, 0);
		pool_publish(space);
	}
	pool_map_drop(pool, context);
	pool_fences_reset(context);
	atomic_store(&context->handle, 0);
}

void pool_context_ended(uint64_t handle, bool gone)
{
	LEAVE_AT_END struct pool *pool = handle ? pool_enter() : NULL;
	struct pool_context *context = pool ? context_lookup(pool, handle) : NULL;

	if (context && gone)
		context_drop(pool, context);
	else if (context && !atomic_load(&context->failed))
		atomic_store(&context->open, true);
}

void pool_context_idle(uint64_t handle, uint64_t epoch)
{
	LEAVE_AT_END struct pool *pool = handle ? pool_enter() : NULL;
	struct pool_context *context = pool ? context_lookup(pool, handle) : NULL;

	if (context)
		pool_fences_note_sync(context, epoch);
}

/* ---- queries and trims ---- */

static uint64_t native_base(uint64_t address)
{
	__auto_type query = CUDA_REAL(cuMemGetAddressRange_v2);
	__auto_type query_attribute = CUDA_REAL(cuPointerGetAttribute);
	CUdeviceptr base = 0;
	size_t size;

	if (query && query(&base, &size, address) == CUDA_SUCCESS)
		return base;
	/* cuMemGetAddressRange needs a current context; this query does not. */
	if (query_attribute && query_attribute(&base, RANGE_START_ADDR, address) == CUDA_SUCCESS)
		return base;
	return 0;
}

bool pool_lookup(uint64_t address, struct pool_place *ret)
{
	LEAVE_AT_END struct pool *pool = pool_enter();
	struct pool_block *block;
	uint32_t state;

	if (!pool)
		return false;
	block = pool_map_lookup(pool, address);
	if (!block)
		block = pool_map_lookup(pool, native_base(address));
	state = block ? atomic_load(&block->state) : POOL_SPARE;
	if (state == POOL_CARVED)
		return pool_slab_lookup(pool, block, address, ret);
	if (state != POOL_LIVE && state != POOL_CACHED)
		return false;
	*ret = (struct pool_place){
		.address = block->address, .bytes = block->bytes,
		.context = atomic_load(&block->space->context->handle),
		.device = block->space->context->device,
		.live = state == POOL_LIVE, .whole = !block->slab,
	};
	return true;
}

void pool_never_reuse(uint64_t address, enum ledger_pool_reason why)
{
	LEAVE_AT_END struct pool *pool = pool_enter();
	struct pool_block *block = pool ? pool_map_lookup(pool, address) : NULL;

	if (block && atomic_load(&block->state) == POOL_LIVE)
		block->never_reuse = (uint8_t)(why + 1);
}

uint64_t pool_unused_bytes(int device)
{
	LEAVE_AT_END struct pool *pool = pool_enter();
	int64_t sum = 0;

	for (unsigned int i = 0; pool && i < POOL_CONTEXTS; i++) {
		struct pool_context *context = &pool->context[i];
		struct pool_space *space = &context->space[POOL_DEVICE];

		if (!atomic_load(&context->handle) || context->device != device)
			continue;
		pool_cache_count_all(pool, space);
		sum += atomic_load(&space->cached);
	}
	return pool_or_zero(sum);
}

static uint64_t context_trim(struct pool *pool, struct pool_context *context, bool idle_only)
{
	uint64_t returned = 0;

	for (int kind = 0; kind < POOL_KINDS; kind++)
		returned += pool_trim(pool, &context->space[kind], UINT64_MAX, idle_only);
	return returned;
}

/* Waits only for a fence that was recorded at a free: there the driver's own free would have
 * waited. */
bool pool_relieve(int device)
{
	LEAVE_AT_END struct pool *pool = pool_enter();
	uint64_t returned = 0, number;

	for (unsigned int i = 0; pool && i < POOL_CONTEXTS; i++) {
		struct pool_context *context = &pool->context[i];

		if (!atomic_load(&context->open) || (device >= 0 && context->device != device))
			continue;
		returned += context_trim(pool, context, false);
		while (!returned && (number = pool_fences_oldest(context)) != 0 &&
		       pool_fence_wait_for_memory(context, number))
			returned += context_trim(pool, context, false);
	}
	return returned > 0;
}

/* Trims CONTEXT from any thread. A thread such as the service thread may have no current context,
 * but the driver's calls need one. */
static uint64_t context_trim_from_any_thread(struct pool *pool, struct pool_context *context)
{
	uint64_t returned = 0;
	bool pushed;

	if (!pool_push_context(context, &pushed))
		return 0;
	returned = context_trim(pool, context, false);
	pool_pop_context(pushed);
	return returned;
}

static uint64_t contexts_trim_all(bool may_wait)
{
	LEAVE_AT_END struct pool *pool = pool_enter();
	uint64_t returned = 0, number;

	for (unsigned int i = 0; pool && i < POOL_CONTEXTS; i++) {
		struct pool_context *context = &pool->context[i];

		if (!atomic_load(&context->open))
			continue;
		pool_fences_poll(context, true);
		while (may_wait && (number = pool_fences_oldest(context)) != 0 &&
		       pool_fence_wait(context, number))
			;
		returned += context_trim_from_any_thread(pool, context);
	}
	return returned;
}

bool pool_relieved(int device)
{
	uint64_t context;

	if (thread_self.call_frame || thread_self.busy)
		return false;
	if (device == LIMITS_CURRENT)
		cuda_current_context(&context, &device);
	return pool_relieve(device);
}

uint64_t pool_return_all(void)
{
	return contexts_trim_all(true);
}

void pool_publish_all(void)
{
	LEAVE_AT_END struct pool *pool = pool_enter();

	for (unsigned int i = 0; pool && i < POOL_CONTEXTS * POOL_KINDS; i++) {
		struct pool_context *context = &pool->context[i / POOL_KINDS];

		if (!atomic_load(&context->handle))
			continue;
		pool_cache_count_all(pool, &context->space[i % POOL_KINDS]);
		pool_publish(&context->space[i % POOL_KINDS]);
	}
}
