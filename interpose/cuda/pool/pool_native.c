/* SPDX-License-Identifier: MIT
 *
 * Memory of the driver: the calls for each kind of memory, the limit of cached bytes, and the
 * return of blocks when memory is short. cuMemFree waits for the device and blocks every other
 * thread meanwhile. So clean blocks are freed by cuMemFreeAsync on a stream of the pool, which
 * waits for no work (measured on an H200).
 */
#include "interpose/cuda/pool/pool_internal.h"
#include "interpose/cuda/pool/pool_cache.h"
#include "interpose/cuda/pool/pool_fence.h"

#include <string.h>

#include "interpose/base/config.h"
#include "interpose/stack/capture.h"

#define FLOOR_BYTES ((int64_t)POOLS_FLOOR) /* as many bytes may always wait for fences */
#define FREE_BYTES_EVERY 32 /* native allocations between two checks of the device's free memory */
#define MANAGED_GLOBAL 1u
#define STREAM_NON_BLOCKING 1u

/* ---- allocation ---- */

static CUresult native_alloc_managed(CUdeviceptr *address, uint64_t bytes)
{
	__auto_type native_alloc = CUDA_REAL(cuMemAllocManaged);

	return native_alloc ? native_alloc(address, bytes, MANAGED_GLOBAL) : CUDA_ERROR_NOT_FOUND;
}

/* Allocates on a temporary stream and waits for it, so that every stream may use the memory. */
static CUresult native_alloc_stream_ordered(CUdeviceptr *address, uint64_t bytes)
{
	__auto_type create = CUDA_REAL(cuStreamCreate);
	used_cuStreamSynchronize *wait = CUDA_USED(cuStreamSynchronize);
	__auto_type destroy = CUDA_REAL(cuStreamDestroy_v2);
	__auto_type native_alloc = CUDA_REAL(cuMemAllocAsync);
	CUstream stream = NULL;
	CUresult r;

	if (!create || !wait || !destroy || !native_alloc)
		return CUDA_ERROR_NOT_FOUND;
	r = create(&stream, STREAM_NON_BLOCKING);
	if (r != CUDA_SUCCESS)
		return r;
	r = native_alloc(address, bytes, stream);
	if (r == CUDA_SUCCESS)
		r = wait(stream);
	destroy(stream);
	return r;
}

static CUresult native_alloc_device(void *real, CUdeviceptr *address, uint64_t bytes)
{
	switch (config.pool_backend) {
	case OPTION_BACKEND_MANAGED:
		return native_alloc_managed(address, bytes);
	case OPTION_BACKEND_STREAM_ORDERED:
		return native_alloc_stream_ordered(address, bytes);
	default:
		return DRIVER(cuMemAlloc_v2, real)(address, bytes);
	}
}

static CUresult native_alloc_pinned(void *real, enum pool_kind kind, uint64_t *address,
				    uint64_t bytes)
{
	void *pointer = NULL;
	CUresult r;

	if (kind == POOL_PINNED_PLAIN)
		r = DRIVER(cuMemAllocHost_v2, real)(&pointer, bytes);
	else
		r = DRIVER(cuMemHostAlloc, real)(&pointer, bytes,
						 (unsigned int)(kind - POOL_PINNED));
	*address = (uint64_t)(uintptr_t)pointer;
	return r;
}

static CUresult native_alloc(struct pool_space *space, void *real, uint64_t *address,
			     uint64_t bytes)
{
	CUdeviceptr device = 0;
	CUresult r;

	if (space->kind != POOL_DEVICE)
		return native_alloc_pinned(real, space->kind, address, bytes);
	r = native_alloc_device(real, &device, bytes);
	*address = device;
	return r;
}

static void space_update_peaks(struct pool_space *space)
{
	int64_t in_use = atomic_load(&space->reserved) - atomic_load(&space->cached) -
			 atomic_load(&space->waste);

	pools_raise(&space->peak_used, pool_or_zero(in_use));
	pool_publish(space);
}

/* Adds a pool block for memory that the driver has just allocated at ADDRESS. CAPACITY is the size
 * of the block, BYTES the size that the application requested. Returns the block in state
 * POOL_LIVE, or NULL if there is no memory for its record. */
static struct pool_block *block_adopt(struct pool *pool, struct pool_space *space, uint64_t address,
				      unsigned int bin, uint64_t capacity, uint64_t bytes)
{
	struct pool_block *block = pool_block_new(pool), *stale;

	if (!block)
		return NULL;
	block->address = address;
	block->bytes = bytes;
	block->capacity = capacity;
	block->space = space;
	block->bin = (uint16_t)bin;
	block->fence = 0;
	if (thread_self.pool_space == space) /* this thread's cache had no block for it */
		block->owner = thread_self.pool_cache;
	atomic_store(&block->state, POOL_LIVE);
	stale = pool_map_lookup(pool, address);
	if (!pool_map_insert(pool, block)) {
		pool_block_recycle(pool, block);
		return NULL;
	}
	if (stale) /* its free was not intercepted; its record may be in use */
		atomic_store(&stale->state, POOL_SPARE);
	atomic_fetch_add(&space->reserved, (int64_t)block->capacity);
	atomic_fetch_add(&space->waste, (int64_t)(block->capacity - bytes));
	atomic_fetch_sub(&space->free_bytes, (int64_t)block->capacity);
	pools_count(&space->record->native_allocs, 1);
	space_update_peaks(space);
	return block;
}

/* Returns the bytes to allocate for BIN. For the bin of 1 MiB these are 1 MiB - 1: for 1 MiB the
 * driver would take 2 MiB, and no request of that bin needs the last byte. */
static uint64_t native_bytes(unsigned int bin)
{
	return pool_bytes_of_bin(bin) - (bin == POOL_BELOW_LARGE);
}

CUresult pool_native_alloc(struct pool *pool, struct pool_space *space, void *real,
			   unsigned int bin, uint64_t bytes, uint64_t *ret_address)
{
	CUresult r;

	bin = pool_native_bin(bin);
	r = native_alloc(space, real, ret_address, native_bytes(bin));
	if (r == CUDA_SUCCESS && recorder_enter()) {
		if (!block_adopt(pool, space, *ret_address, bin, pool_bytes_of_bin(bin), bytes))
			pools_count_reason(space->record, LEDGER_POOL_NO_MEMORY);
		recorder_leave();
	}
	return r;
}

struct pool_block *pool_native_alloc_slab(struct pool *pool, struct pool_space *space, void *real,
					  uint64_t bytes)
{
	__auto_type native_free = CUDA_REAL(cuMemFree_v2);
	struct pool_block *block = NULL;
	uint64_t address;

	if (native_alloc(space, real, &address, bytes) != CUDA_SUCCESS)
		return NULL;
	block = block_adopt(pool, space, address, 0, bytes, bytes);
	if (!block && native_free)
		native_free(address);
	return block;
}

/* ---- return ---- */

static CUresult native_free(const struct pool_block *block, const struct pool_native_free *native)
{
	bool device = block->space->kind == POOL_DEVICE;
	void *real = native   ? native->real
		     : device ? (void *)CUDA_REAL(cuMemFree_v2)
			      : (void *)CUDA_REAL(cuMemFreeHost);

	if (!real)
		return CUDA_ERROR_NOT_FOUND;
	if (native && native->async)
		return DRIVER(cuMemFreeAsync, real)(block->address, native->stream);
	return device ? DRIVER(cuMemFree_v2, real)(block->address)
		      : DRIVER(cuMemFreeHost, real)((void *)(uintptr_t)block->address);
}

/* Counts BLOCK as returned to the driver. */
static void block_forget(struct pool *pool, struct pool_block *block)
{
	struct pool_space *space = block->space;

	atomic_fetch_sub(&space->reserved, (int64_t)block->capacity);
	atomic_fetch_add(&space->free_bytes, (int64_t)block->capacity);
	pools_count(&space->record->native_frees, 1);
	pool_block_recycle(pool, block);
}

CUresult pool_native_return(struct pool *pool, struct pool_block *block,
			    const struct pool_native_free *native)
{
	uint32_t was = atomic_exchange(&block->state, POOL_RETURNING);
	CUresult r;

	/* First: the driver may give the address to another thread at once. */
	pool_map_remove(pool, block);
	r = native_free(block, native);
	if (r != CUDA_SUCCESS) {
		atomic_store(&block->state, was);
		pool_map_insert(pool, block);
		return r;
	}
	block_forget(pool, block);
	return r;
}

void pool_native_init(struct pool_context *context)
{
	__auto_type create = CUDA_REAL(cuStreamCreate);
	CUstream stream = NULL;
	bool pushed;
	int mode;

	if (context->by_sync || !create)
		return;
	mode = pool_relax();
	if (pool_push_context(context, &pushed)) {
		if (create(&stream, STREAM_NON_BLOCKING) != CUDA_SUCCESS)
			stream = NULL;
		pool_pop_context(pushed);
	}
	pool_unrelax(mode);
	context->stream = stream;
}

/* Frees blocks of the device's memory pool until one free fails. Returns that block, or NULL. */
static const struct pool_block *native_free_outlived(const struct pool_block *block)
{
	__auto_type end = CUDA_REAL(cuMemFree_v2);

	for (; block; block = block->next)
		if (block->space->kind == POOL_DEVICE && !block->slab &&
		    (!end || end(block->address) != CUDA_SUCCESS))
			break;
	return block;
}

/* Memory of the device's memory pool belongs to no context. The driver refuses the free if the
 * ended context is current for the calling thread. So the primary context is current meanwhile; it
 * ends again if no other code retains it. At the process's exit the driver frees everything. */
void pool_native_free_outlived(const struct pool_block *blocks)
{
	__auto_type retain = CUDA_REAL(cuDevicePrimaryCtxRetain);
	__auto_type release = CUDA_REAL(cuDevicePrimaryCtxRelease_v2);
	CUcontext primary;
	int device, mode;

	if (config.pool_backend != OPTION_BACKEND_STREAM_ORDERED)
		return;
	mode = pool_relax();
	blocks = native_free_outlived(blocks);
	device = blocks ? blocks->space->context->device : -1;
	if (blocks && retain && release && !stack_inside_exit() &&
	    retain(&primary, device) == CUDA_SUCCESS) {
		if (cuda_push_context(primary)) {
			native_free_outlived(blocks);
			cuda_pop_context();
		}
		release(device);
	}
	pool_unrelax(mode);
}

/* Frees BLOCK without a wait if its kind of memory permits. Sets *RET_STREAM for
 * native_free_finish(). */
static CUresult native_free_without_wait(const struct pool_block *block, CUstream *ret_stream)
{
	struct pool_context *context = block->space->context;
	__auto_type free_async = CUDA_REAL(cuMemFreeAsync);
	CUstream stream = NULL;

	if (block->space->kind == POOL_DEVICE && config.pool_backend != OPTION_BACKEND_MANAGED &&
	    free_async)
		stream = context->stream;
	if (!stream)
		return native_free(block, NULL);
	if (!*ret_stream)
		atomic_fetch_add(&context->stream_users, 1);
	*ret_stream = stream;
	return free_async(block->address, stream);
}

/* Call after all calls of native_free_without_wait(). STREAM: what they stored, or NULL. */
static void native_free_finish(struct pool_context *context, CUstream stream)
{
	if (!stream)
		return;
	pool_wait_for_stream(stream);
	atomic_fetch_sub(&context->stream_users, 1);
}

static bool space_free_waits(const struct pool_space *space)
{
	return space->kind != POOL_DEVICE || space->context->by_sync ||
	       config.pool_backend == OPTION_BACKEND_MANAGED;
}

static bool space_must_not_wait(const struct pool_space *space, bool idle_only)
{
	return idle_only && space_free_waits(space) &&
	       (!pool_is_idle(space->context) || atomic_load(&space->context->stream_users));
}

/* Returns a cached block, which is in no bin, to its slab or to the driver. Returns false if the
 * driver refused: then the block is cached again. */
static bool block_return(struct pool *pool, struct pool_block *block, CUstream *ret_stream)
{
	struct pool_space *space = block->space;
	int64_t capacity = (int64_t)block->capacity;
	struct pool_cache *cache;

	if (block->slab) {
		pool_slab_return(pool, block);
		return true;
	}
	atomic_store(&block->state, POOL_RETURNING);
	pool_map_remove(pool, block);
	if (native_free_without_wait(block, ret_stream) == CUDA_SUCCESS) {
		block_forget(pool, block);
		atomic_fetch_sub(&space->cached, capacity);
		pools_count_trimmed(space->record, 1, (uint64_t)capacity);
		return true;
	}
	atomic_store(&block->state, POOL_CACHED);
	pool_map_insert(pool, block);
	cache = pool_cache_here(pool, space);
	if (cache) {
		pool_cache_enter(cache);
		pool_cache_insert(cache, block);
		pool_cache_leave(cache);
	}
	return false;
}

bool pool_native_return_slab(struct pool *pool, struct pool_block *block)
{
	CUstream stream = NULL;
	int mode = pool_relax();
	CUresult r;

	pool_map_remove(pool, block);
	r = native_free_without_wait(block, &stream);
	native_free_finish(block->space->context, stream);
	if (r == CUDA_SUCCESS) {
		block_forget(pool, block);
	} else {
		pool_map_insert(pool, block);
	}
	pool_unrelax(mode);
	return r == CUDA_SUCCESS;
}

/* Returns clean blocks of SPACE that were freed before BEFORE_S, the oldest first, up to BYTES. */
static uint64_t space_return_clean(struct pool *pool, struct pool_space *space, uint64_t bytes,
				   uint32_t before_s, bool idle_only)
{
	struct pool_block *block;
	CUstream stream = NULL;
	uint64_t returned = 0, capacity;
	int mode = pool_relax();

	while (returned < bytes && !space_must_not_wait(space, idle_only) &&
	       (block = pool_cache_remove_oldest(space, true, before_s)) != NULL) {
		capacity = block->slab ? 0 : block->capacity;
		if (!block_return(pool, block, &stream))
			break;
		returned += capacity;
	}
	native_free_finish(space->context, stream);
	pool_unrelax(mode);
	return returned;
}

/* Returns empty slabs to the driver first: no other thread could reuse a block of them. */
static uint64_t space_trim_slabs(struct pool *pool, struct pool_space *space, uint64_t bytes)
{
	bool all = bytes == UINT64_MAX;
	uint64_t returned = pool_slabs_trim(pool, space, bytes, UINT32_MAX, all);

	if (returned < bytes && pool_cache_coalesce(pool, space, NULL, 0))
		returned += pool_slabs_trim(pool, space, bytes - returned, UINT32_MAX, all);
	return returned;
}

static void space_collect(struct pool *pool, struct pool_space *space)
{
	pool_cache_collect(pool, space);
	pool_fences_poll(space->context, true);
}

/* Call after pool_cache_collect(). */
static uint64_t space_trim(struct pool *pool, struct pool_space *space, uint64_t bytes,
			   bool idle_only)
{
	uint64_t returned = 0;

	if (atomic_load(&space->slabs) && !space_must_not_wait(space, idle_only))
		returned = space_trim_slabs(pool, space, bytes);
	if (returned < bytes)
		returned +=
			space_return_clean(pool, space, bytes - returned, UINT32_MAX, idle_only);
	if (returned)
		pools_count(&space->record->trims, 1);
	return returned;
}

uint64_t pool_trim(struct pool *pool, struct pool_space *space, uint64_t bytes, bool idle_only)
{
	if (!bytes || !atomic_load(&space->reserved))
		return 0;
	space_collect(pool, space);
	return space_trim(pool, space, bytes, idle_only);
}

/* ---- limits ---- */

/* Measures the lag: the freed bytes that wait for submitted work, because the host runs ahead of
 * the device. The cache may hold that many bytes. Call after pool_cache_collect(). Returns true if
 * it found a new maximum. */
static bool space_update_lag(struct pool *pool, struct pool_space *space)
{
	uint64_t known = atomic_load(&space->lag), now_ns = recorder_time(pool->recorder), lag;

	if (pool_pending_bytes(space) <= known || now_ns == atomic_load(&space->lag_checked_ns))
		return false;
	lag = pool_cache_unclean_bytes(space);
	if (lag > known)
		atomic_store(&space->lag, lag);
	else
		atomic_store(&space->lag_checked_ns, now_ns);
	return lag > known;
}

/* Returns the bytes that may be cached. Together with IN_USE they exceed the peak of requested
 * bytes by a tenth at most, or by the lag if that is more. A small amount is always allowed. */
static int64_t space_allowed_bytes(struct pool_space *space, int64_t in_use)
{
	uint64_t total = space->context->total;
	int64_t peak = (int64_t)atomic_load(&SHARED(space->peak_used));
	int64_t requested = in_use - atomic_load(&space->waste);
	int64_t lag = (int64_t)atomic_load(&space->lag);
	int64_t extra, may;

	if (config.pool_cache != OPTION_UNSET)
		return (int64_t)option_amount(config.pool_cache, total);
	if (peak < requested)
		peak = requested;
	extra = (int64_t)pools_bound((uint64_t)peak);
	if (extra < (int64_t)(total / 128))
		extra = (int64_t)(total / 128);
	if (extra < lag + lag / 8)
		extra = lag + lag / 8;
	may = peak + extra - in_use;
	return (may > 0 ? may : 0) + atomic_load(&space->preallocated);
}

/* Waits until no more bytes wait for fences than a driver without a pool could have pending. */
static void space_bound_pending(struct pool_space *space)
{
	struct pool_context *context = space->context;
	int64_t most = (int64_t)(context->total / 20);
	uint64_t number;

	if (most < FLOOR_BYTES)
		most = FLOOR_BYTES;
	if (atomic_load(&space->cached) <= most)
		return;
	pool_fences_poll(context, true);
	while ((number = pool_fences_oldest(context)) != 0 &&
	       (int64_t)pool_pending_bytes(space) > most && pool_fence_wait(context, number))
		;
}

static bool space_is_short(struct pool_space *space, uint64_t bytes)
{
	int64_t floor = (int64_t)option_amount(config.pool_keep_free, space->context->total);

	return space->kind == POOL_DEVICE && atomic_load(&space->native_count) &&
	       atomic_load(&space->free_bytes) < floor + (int64_t)bytes;
}

static void space_update_free_bytes(struct pool_space *space, uint64_t bytes)
{
	__auto_type query = CUDA_REAL(cuMemGetInfo_v2);
	size_t free_bytes = 0, total = 0;
	uint64_t owner;
	int device;

	if (space->kind != POOL_DEVICE ||
	    (atomic_fetch_add(&space->native_count, 1) % FREE_BYTES_EVERY &&
	     !space_is_short(space, bytes)))
		return;
	cuda_current_context(&owner, &device);
	if (query && device == space->context->device && query(&free_bytes, &total) == CUDA_SUCCESS)
		atomic_store(&space->free_bytes, (int64_t)free_bytes);
}

/* Returns the cached bytes above the limit if BYTES more were in use and MORE were cached. Adds
 * an eighth of the limit, so that not every free has to return memory. */
static uint64_t space_excess(struct pool_space *space, uint64_t bytes, uint64_t more)
{
	int64_t cached = atomic_load(&space->cached);
	int64_t in_use = atomic_load(&space->reserved) - cached + (int64_t)bytes;
	int64_t may = space_allowed_bytes(space, in_use);
	uint64_t limit = space->kind == POOL_DEVICE ? limits_of(API_CUDA, space->context->device)
						    : UINT64_MAX;

	if (limit != UINT64_MAX && in_use + may > (int64_t)limit)
		may = in_use < (int64_t)limit ? (int64_t)limit - in_use : 0;
	cached += (int64_t)more;
	return cached > may ? (uint64_t)(cached - may + may / 8) : 0;
}

/* Returns the bytes to return to the driver if BYTES more were in use and MORE were cached. If
 * memory is short, these are all cached bytes. */
static uint64_t space_bytes_to_return(struct pool_space *space, uint64_t bytes, uint64_t more)
{
	uint64_t over = space_excess(space, bytes, more);

	return over || !space_is_short(space, bytes) ? over
						     : pool_or_zero(atomic_load(&space->cached));
}

/* Returns the excess to the driver, unless the check of the lag finds that as many bytes wait for
 * work. Free memory of a slab with live parts cannot be returned. If the excess is such memory,
 * this function tries again only after the excess grew. */
static void space_trim_excess(struct pool *pool, struct pool_space *space, uint64_t bytes,
			      uint64_t more, bool idle_only)
{
	uint64_t over = space_bytes_to_return(space, bytes, more),
		 stuck = atomic_load(&space->unreclaimable), returned;
	int64_t freed = atomic_load(&space->freed);

	if (over < stuck)
		atomic_store(&space->unreclaimable, over);
	if (!over ||
	    (stuck && over <= stuck + (uint64_t)FLOOR_BYTES &&
	     freed - atomic_load(&space->unreclaimable_freed) < atomic_load(&space->reserved) / 8))
		return;
	space_collect(pool, space);
	if (space_update_lag(pool, space))
		over = space_bytes_to_return(space, bytes, more);
	returned = over ? space_trim(pool, space, over, idle_only) : 0;
	if (!atomic_load(&space->slabs))
		return;
	atomic_store(&space->unreclaimable, returned < over ? over - returned : 0);
	atomic_store(&space->unreclaimable_freed, freed);
}

void pool_trim_to_limit(struct pool *pool, struct pool_space *space, bool may_wait)
{
	struct pool_context *context = space->context;

	space_update_peaks(space);
	if (atomic_load(&context->failed)) {
		pool_fail(pool, context);
		return;
	}
	if (may_wait)
		space_bound_pending(space);
	space_trim_excess(pool, space, 0, 0, !context->strict || !may_wait);
}

void pool_make_room(struct pool *pool, struct pool_space *space, uint64_t bytes)
{
	space_update_free_bytes(space, bytes);
	/* Even if the context is idle now, it may be busy when the driver's free runs. */
	if (space_free_waits(space) || !recorder_enter())
		return;
	space_trim_excess(pool, space, bytes, 0, true);
	recorder_leave();
}

bool pool_may_allocate(struct pool *pool, struct pool_space *space, uint64_t bytes, uint64_t more)
{
	uint64_t over;

	space_update_free_bytes(space, bytes + more);
	if (space_is_short(space, bytes + more))
		return false;
	over = space_excess(space, bytes, more);
	if (over && !space_free_waits(space)) {
		space_trim_excess(pool, space, bytes, more, true);
		over = space_excess(space, bytes, more);
	}
	return !over;
}

/* Call once a second. Reduces the stored lag by an eighth, because the real one may have become
 * smaller. */
static void contexts_decay_lag(struct pool *pool)
{
	for (unsigned int i = 0; i < POOL_CONTEXTS; i++) {
		struct pool_context *context = &pool->context[i];

		for (int kind = 0; kind < POOL_KINDS && atomic_load(&context->open); kind++) {
			uint64_t lag = atomic_load(&context->space[kind].lag);

			if (lag)
				atomic_store(&context->space[kind].lag, lag - lag / 8);
		}
	}
}

void pool_decay(struct pool *pool, uint32_t now_s)
{
	uint32_t age = (uint32_t)config.pool_decay;

	contexts_decay_lag(pool);
	if (!age || now_s < age)
		return;
	for (unsigned int i = 0; i < POOL_CONTEXTS; i++) {
		struct pool_context *context = &pool->context[i];

		if (!atomic_load(&context->open))
			continue;
		pool_fences_poll(context, true);
		for (int kind = 0; kind < POOL_KINDS; kind++) {
			struct pool_space *space = &context->space[kind];

			if (!atomic_load(&space->reserved))
				continue;
			pool_cache_collect(pool, space);
			space_return_clean(pool, space, UINT64_MAX, now_s - age, true);
			if (!space_must_not_wait(space, true))
				pool_slabs_trim(pool, space, UINT64_MAX, now_s - age, false);
		}
	}
}

/* Returns blocks that are not known to be clean, by a free that waits for the device. */
static void space_return_pending(struct pool *pool, struct pool_space *space)
{
	struct pool_block *block;
	int64_t capacity;

	while ((block = pool_cache_remove_oldest(space, false, UINT32_MAX)) != NULL) {
		capacity = (int64_t)block->capacity;
		if (block->slab || pool_native_return(pool, block, NULL) == CUDA_SUCCESS)
			atomic_fetch_sub(&space->cached, capacity);
	}
}

/* The application notices no change: live blocks stay, and the driver frees them later. Cached
 * blocks are returned. */
void pool_fail(struct pool *pool, struct pool_context *context)
{
	static const char why[] = "the driver returned an error for an event";
	struct recorder *recorder = pool->recorder;
	uint32_t text;
	int mode;

	atomic_store(&context->failed, true);
	if (!atomic_exchange(&context->open, false))
		return;
	text = ledger_add_string(&recorder->writer, why, sizeof(why) - 1);
	mode = pool_relax();
	for (int kind = 0; kind < POOL_KINDS; kind++) {
		struct pool_space *space = &context->space[kind];

		shared_store(space->record->off, text);
		pool_cache_collect(pool, space);
		space_return_pending(pool, space);
	}
	pool_unrelax(mode);
}
