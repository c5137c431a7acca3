/* SPDX-License-Identifier: MIT
 *
 * The cache of OpenCL buffers: which buffers are cached, reused and returned. The pool takes over
 * the last reference of a buffer when the application releases it. The driver counts all other
 * references, so queries of a live buffer return correct results. opencl_fence.c decides when a
 * buffer is clean. The driver may report more references than the pool knows: its own commands have
 * some, or callers that are not intercepted. Then the buffer is not reused.
 */
#include <dlfcn.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "interpose/base/config.h"
#include "interpose/block/blocks.h"
#include "interpose/block/driver_call.h"
#include "interpose/block/mappings.h"
#include "interpose/dispatch/find_module.h"
#include "interpose/opencl/pool/opencl_pool_internal.h"
#include "interpose/block/pool_counters.h"
#include "interpose/recorder/recorder.h"
#include "ledger/shared.h"

#define BUSY_MAX 16

/* Flags without host memory. Unknown flags are not pooled. */
#define PLAIN_FLAGS                                                                      \
	((cl_mem_flags)(CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY |       \
			CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS))

/* ---- the driver ---- */

static cl_uint driver_mem_count(const struct cl_pool_calls *calls, cl_mem object, cl_mem_info what)
{
	cl_uint count = 0;
	cl_int r = CL_POOL_CALL(calls, mem_info, clGetMemObjectInfo, object, what, sizeof(count),
				&count, NULL);

	return r == CL_SUCCESS ? count : ~0u;
}

static void buffer_set_state(struct cl_pool_buffer *object, enum buffer_state state)
{
	shared_publish(object->state, (int)state);
}

static cl_mem buffer_handle(const struct cl_pool_buffer *object)
{
	return (cl_mem)(uintptr_t)object->handle;
}

static uint64_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec;
}

/* ---- the table of handles ---- */

static struct cl_pool_shard *shard_of(struct cl_pool *pool, uint64_t handle)
{
	return &pool->shards[TABLE_MIX(handle) >> 58];
}
_Static_assert(CL_POOL_SHARDS == 64, "shard_of() takes six bits of the hash");

/* cl_pool_current() saw the thread outside the recorder. If recording stopped since, this changes
 * nothing, nor does shard_unlock(). */
static void shard_lock(struct cl_pool_shard *shard)
{
	(void)!recorder_enter();
	lock_take(&shard->lock);
}

static void shard_unlock(struct cl_pool_shard *shard)
{
	lock_give_soon(&shard->lock);
	recorder_leave();
}

static struct cl_pool_buffer *shard_lookup(struct cl_pool_shard *shard, uint64_t handle)
{
	struct cl_pool_buffer *object;

	TABLE_FIND(shard->objects, &handle, object);
	return object;
}

/* Locks the shard of HANDLE and stores its buffer, or NULL, in *RET. Returns NULL, with no lock
 * taken, if there is no pool or HANDLE is NULL. */
static struct cl_pool_shard *shard_lock_of(cl_mem handle, struct cl_pool_buffer **ret)
{
	struct cl_pool *pool = cl_pool_current();
	struct cl_pool_shard *shard;

	if (!pool || !handle)
		return NULL;
	shard = shard_of(pool, (uint64_t)(uintptr_t)handle);
	shard_lock(shard);
	*ret = shard_lookup(shard, (uint64_t)(uintptr_t)handle);
	return shard;
}

/* The driver owns the buffer from now on. The record stays until the driver reports the
 * destruction. */
static void shard_remove(struct cl_pool *pool, struct cl_pool_shard *shard,
			 struct cl_pool_buffer *object)
{
	if (shard_lookup(shard, object->handle) == object)
		TABLE_REMOVE(pool->arena, shard->objects, object);
	buffer_set_state(object, BUFFER_RETURNED);
}

static void table_remove(struct cl_pool *pool, struct cl_pool_buffer *object)
{
	struct cl_pool_shard *shard = shard_of(pool, object->handle);

	shard_lock(shard);
	shard_remove(pool, shard, object);
	shard_unlock(shard);
}

static bool table_insert(struct cl_pool *pool, struct cl_pool_buffer *object)
{
	struct cl_pool_shard *shard = shard_of(pool, object->handle);
	struct cl_pool_buffer *stale;
	bool added;

	shard_lock(shard);
	stale = shard_lookup(shard, object->handle);
	if (stale)
		shard_remove(pool, shard, stale);
	added = TABLE_ADD(pool->arena, shard->objects, handle, object);
	shard_unlock(shard);
	return added;
}

/* ---- counting ---- */

static void device_publish(struct cl_pool_device *device)
{
	int64_t in_use = atomic_load_explicit(&device->used, memory_order_relaxed);
	int64_t cached = atomic_load_explicit(&device->cached, memory_order_relaxed);
	int64_t pending = atomic_load_explicit(&device->pending, memory_order_relaxed);
	struct ledger_pool *record = device->record;
	uint64_t reserved = (uint64_t)(in_use + cached);

	if (pending > cached)
		pending = cached;
	shared_store(record->reserved, reserved);
	shared_store(record->pending, (uint64_t)pending);
	shared_store(record->cached, (uint64_t)(cached - pending));
	pools_raise(&record->peak_reserved, reserved);
	pools_raise(&record->peak_used, (uint64_t)in_use);
}

/* Adds BYTES to those that the application uses. cache_insert() and cache_remove() count those in
 * the cache; their callers call this or device_publish() then. */
static void device_account(struct cl_pool_device *device, int64_t bytes)
{
	shared_add(device->used, bytes);
	device_publish(device);
}

static uint64_t device_limit(const struct cl_pool_device *device)
{
	if (config.pool_cache != OPTION_UNSET)
		return option_amount(config.pool_cache, device->total);
	return pools_bound(shared_load(device->record->peak_used));
}

/* ---- the cache; Locking: need the context's lock ---- */

static void cache_count(struct cl_pool_context *context, const struct cl_pool_buffer *object,
			int64_t bytes)
{
	cl_fence_add_bytes(context, object->fence, bytes);
	shared_add(context->device->cached, bytes);
}

static struct cl_pool_buffer **bucket_for(struct cl_pool_context *context, cl_mem_flags flags,
					  size_t size)
{
	uint64_t mixed = TABLE_MIX(size ^ flags << 48);

	return &context->bucket[mixed >> 56];
}
_Static_assert(CL_POOL_BUCKETS == 256, "bucket_for() takes eight bits of the hash");

static void cache_insert(struct cl_pool_context *context, struct cl_pool_buffer *object,
			 uint64_t now)
{
	struct cl_pool_buffer **bucket = bucket_for(context, object->flags, object->size);

	object->since_s = now;
	DL_APPEND(context->order, object);
	DL_APPEND2(*bucket, object, bucket_prev, bucket_next);
	if (!object->end_recorded)
		DL_APPEND2(context->end_unrecorded, object, unrecorded_prev, unrecorded_next);
	cache_count(context, object, (int64_t)object->size);
	buffer_set_state(object, BUFFER_CACHED);
}

static void cache_remove(struct cl_pool_context *context, struct cl_pool_buffer *object)
{
	struct cl_pool_buffer **bucket = bucket_for(context, object->flags, object->size);

	DL_DELETE(context->order, object);
	DL_DELETE2(*bucket, object, bucket_prev, bucket_next);
	if (!object->end_recorded)
		DL_DELETE2(context->end_unrecorded, object, unrecorded_prev, unrecorded_next);
	cache_count(context, object, -(int64_t)object->size);
	buffer_set_state(object, BUFFER_RELEASING);
}

/* Locking: needs CONTEXT's lock. Removes OBJECT from the cache and puts it in front of VICTIMS. */
static struct cl_pool_buffer *cache_remove_to(struct cl_pool_context *context,
					      struct cl_pool_buffer *object,
					      struct cl_pool_buffer *victims)
{
	cache_remove(context, object);
	object->bucket_next = victims;
	return object;
}

struct cl_pool_buffer *cl_pool_remove_all(struct cl_pool_context *context)
{
	struct cl_pool_buffer *victims = NULL;

	while (context->order)
		victims = cache_remove_to(context, context->order, victims);
	return victims;
}

static bool buffer_is_clean(const struct cl_pool_context *context,
			    const struct cl_pool_buffer *object)
{
	return object->fence <= context->completed && object->fence > context->failed;
}

static bool buffer_matches(const struct cl_pool_buffer *object, cl_mem_flags flags, size_t size)
{
	return object->size == size && object->flags == flags;
}

/* Returns the newest buffer if it is clean, since processor caches may still have it, or else
 * the oldest if it is clean. Sets *RET_PENDING if a buffer matches that is not clean yet. */
static struct cl_pool_buffer *cache_find_clean(struct cl_pool_context *context, cl_mem_flags flags,
					       size_t size, bool *ret_pending)
{
	struct cl_pool_buffer *first = *bucket_for(context, flags, size),
			      *object = first ? first->bucket_prev : NULL;

	while (object && !buffer_matches(object, flags, size))
		object = object == first ? NULL : object->bucket_prev;
	if (!object || buffer_is_clean(context, object))
		return object;
	for (object = first; !buffer_matches(object, flags, size); object = object->bucket_next)
		;
	*ret_pending = true;
	return buffer_is_clean(context, object) ? object : NULL;
}

/* ---- return to the driver ---- */

/* Records that the application can no longer use OBJECT's block. */
static void buffer_record_end(struct cl_pool_buffer *object)
{
	object->end_recorded = true;
	record_destroyed_as(SPACE_CL_HANDLE, object->handle, atomic_load(&object->watched),
			    GONE_WITH_POOL);
}

uint64_t cl_pool_return(struct cl_pool_context *context, struct cl_pool_buffer *victims)
{
	struct cl_pool *pool = cl_pool_current();
	struct ledger_pool *record = context->device->record;
	const struct cl_pool_calls calls = context->calls;
	uint64_t bytes = 0, count = 0;
	struct cl_pool_buffer *next;

	for (; pool && victims; victims = next) {
		next = victims->bucket_next;
		bytes += victims->size;
		count++;
		table_remove(pool, victims);
		/* May destroy the buffer: then on_buffer_destroyed() runs. */
		CL_POOL_CALL(&calls, release_mem, clReleaseMemObject, buffer_handle(victims));
	}
	if (count) {
		device_publish(context->device);
		pools_count(&record->trims, 1);
		pools_count_trimmed(record, count, bytes);
		pools_count(&record->native_frees, count);
	}
	return bytes;
}

/* Locking: needs CONTEXT's lock. Removes the oldest buffers until the cache is within BOUND, and
 * those that were unused for longer than GPULEAK_POOL_DECAY. Returns them. */
static struct cl_pool_buffer *cache_trim(struct cl_pool_context *context, uint64_t bound,
					 uint64_t now)
{
	struct cl_pool_buffer *victims = NULL, *object;
	uint64_t decay = (uint64_t)config.pool_decay;

	while ((object = context->order) != NULL) {
		bool over = (uint64_t)atomic_load(&context->device->cached) > bound;
		bool old =
			decay && now - object->since_s >= decay && buffer_is_clean(context, object);

		if (!over && !old)
			break;
		victims = cache_remove_to(context, object, victims);
	}
	return victims;
}

static void context_trim(struct cl_pool_context *context)
{
	uint64_t bound = device_limit(context->device), now = now_s();
	struct cl_pool_buffer *victims;

	if (!shared_load(context->order))
		return;
	cl_pool_lock(context);
	victims = cache_trim(context, bound, now);
	cl_pool_unlock(context);
	cl_pool_return(context, victims);
}

/* Records block ends in portions of 32, then returns buffers whose markers failed. */
void cl_pool_fences_completed(struct cl_pool_context *context)
{
	struct cl_pool_buffer *victims = NULL, *object, *next;
	struct {
		uint64_t handle, watched;
	} ended[32];
	unsigned int count;

	device_publish(context->device);
	do {
		count = 0;
		cl_pool_lock(context);
		DL_FOREACH_SAFE2(context->end_unrecorded, object, next, unrecorded_next)
		{
			if (object->fence > context->completed ||
			    object->fence <= context->failed || count == 32)
				continue;
			ended[count].handle = object->handle;
			ended[count++].watched = atomic_load(&object->watched);
			DL_DELETE2(context->end_unrecorded, object, unrecorded_prev,
				   unrecorded_next);
			object->end_recorded = true;
		}
		cl_pool_unlock(context);
		for (unsigned int i = 0; i < count; i++)
			record_destroyed(SPACE_CL_HANDLE, ended[i].handle, ended[i].watched);
	} while (count == 32);
	cl_pool_lock(context);
	if (context->dropped != context->failed) {
		context->dropped = context->failed;
		DL_FOREACH_SAFE(context->order, object, next) {
			if (object->fence <= context->failed)
				victims = cache_remove_to(context, object, victims);
		}
	}
	cl_pool_unlock(context);
	cl_pool_return(context, victims);
}

uint64_t opencl_pool_return_all(void)
{
	struct cl_pool *pool = cl_pool_current();
	uint64_t bytes = 0;

	for (unsigned int i = 0; pool && i < CL_POOL_CONTEXTS; i++) {
		struct cl_pool_context *context = &pool->contexts[i];
		struct cl_pool_buffer *victims;

		if (!shared_load(context->order))
			continue;
		cl_pool_lock(context);
		victims = cl_pool_remove_all(context);
		cl_pool_unlock(context);
		bytes += cl_pool_return(context, victims);
	}
	return bytes;
}

struct ledger_pool *opencl_pool_relieve_command(cl_int code)
{
	struct cl_pool *pool = code == CL_MEM_OBJECT_ALLOCATION_FAILURE ? cl_pool_current() : NULL;
	struct ledger_pool *record = NULL;

	for (unsigned int i = 0; pool && i < CL_POOL_DEVICES && !record; i++)
		if (atomic_load(&pool->devices[i].cached) > 0)
			record = pool->devices[i].record;
	return record && opencl_pool_return_all() ? record : NULL;
}

struct ledger_pool *opencl_pool_relieve(cl_int code)
{
	if (code == CL_OUT_OF_RESOURCES || code == CL_OUT_OF_HOST_MEMORY)
		code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
	return opencl_pool_relieve_command(code);
}

void opencl_pool_unseen(const char *name)
{
	struct recorder *recorder = recorder_now();
	struct cl_pool *pool;

	if (strcmp(name, "clCreateCommandQueueWithPropertiesKHR") != 0 &&
	    strcmp(name, "clCreateCommandBufferKHR") != 0)
		return;
	pool = recorder ? shared_load_acquire(recorder->cl_pool) : NULL;
	if (pool)
		atomic_store(&pool->unseen_queues, true);
}

void opencl_pool_after_dlclose(void)
{
	struct cl_pool *pool = cl_pool_current();

	for (unsigned int i = 0; pool && i < CL_POOL_CONTEXTS; i++) {
		struct cl_pool_context *context = &pool->contexts[i];

		if (!atomic_load(&context->handle) || !context->calls.release_mem ||
		    module_of(context->calls.release_mem))
			continue;
		cl_pool_lock(context);
		/* The driver is unloaded: never call it again. */
		atomic_store(&context->handle, NULL);
		context->completed = context->last_issued;
		while (context->order)
			cache_remove(context, context->order);
		device_publish(context->device);
		cl_pool_unlock(context);
	}
}

/* ---- creation ---- */

/* The buffer was destroyed by a call that was not intercepted. */
static void buffer_end_unseen(struct cl_pool *pool, struct cl_pool_context *context,
			      struct cl_pool_buffer *object)
{
	cl_pool_lock(context);
	if (atomic_load(&object->state) == BUFFER_CACHED) {
		cache_remove(context, object);
		device_publish(context->device);
	} else {
		device_account(context->device, -(int64_t)object->size);
	}
	cl_pool_unlock(context);
	table_remove(pool, object);
}

/* The driver's callback, on any thread: the memory is freed. */
static void CL_CALLBACK on_buffer_destroyed(cl_mem object, void *data)
{
	struct cl_pool *pool = cl_pool_current();
	struct cl_pool_buffer *cached = data;
	struct cl_pool_context *context = cached->context;

	record_destroyed(SPACE_CL_HANDLE, (uint64_t)(uintptr_t)object,
			 atomic_load(&cached->watched));
	if (!pool || context < pool->contexts || context >= pool->contexts + CL_POOL_CONTEXTS)
		return; /* the pool is a parent's, or this interrupted the recorder */
	if (atomic_load(&cached->state) != BUFFER_RETURNED)
		buffer_end_unseen(pool, context, cached);
	atomic_fetch_sub(&context->objects, 1);
	if (recorder_enter()) {
		arena_give(pool->arena, cached, sizeof(*cached));
		recorder_leave();
	}
}

static struct cl_pool_buffer *buffer_new(struct cl_pool *pool)
{
	struct cl_pool_buffer *object = NULL;

	if (recorder_enter()) {
		object = arena_take(pool->arena, sizeof(*object));
		recorder_leave();
	}
	return object;
}

/* Returns true if MADE is tracked. Then its block ends when record_destroyed() gets
 * *RET_WATCHED. */
static bool buffer_track(struct cl_pool *pool, struct cl_pool_context *context, cl_mem made,
			 cl_mem_flags flags, size_t size, uint64_t *ret_watched)
{
	struct cl_pool_buffer *object = buffer_new(pool);
	uint64_t watched;

	if (!object)
		return false;
	object->handle = (uint64_t)(uintptr_t)made;
	object->context = context;
	object->flags = flags;
	object->size = size;
	object->references = 1;
	watched = opencl_number();
	atomic_store(&object->watched, watched);
	if (!table_insert(pool, object)) {
		pools_count_reason(context->device->record, LEDGER_POOL_NO_MEMORY);
		return false;
	}
	atomic_fetch_add(&context->objects, 1);
	if (!opencl_watch(made, on_buffer_destroyed, object)) { /* OpenCL 1.0 */
		table_remove(pool, object);
		atomic_fetch_sub(&context->objects, 1);
		return false;
	}
	*ret_watched = watched;
	return true;
}

static bool request_is_plain(cl_mem_flags flags, const void *host_ptr)
{
	return !host_ptr && !(flags & ~PLAIN_FLAGS);
}

static void table_remove_stale(struct cl_pool *pool, cl_mem made)
{
	struct cl_pool_shard *shard = shard_of(pool, (uint64_t)(uintptr_t)made);
	struct cl_pool_buffer *stale;

	shard_lock(shard);
	stale = shard_lookup(shard, (uint64_t)(uintptr_t)made);
	if (stale)
		shard_remove(pool, shard, stale);
	shard_unlock(shard);
}

bool opencl_pool_created(struct call *call, cl_mem made, cl_context handle,
			 cl_mem_flags flags, size_t size, void *host_ptr)
{
	struct cl_pool *pool = opencl_pool_is_on() ? cl_pool_current() : NULL;
	struct cl_pool_context *context = pool ? cl_pool_lookup_context(pool, handle) : NULL;
	struct call watched = *call;

	if (context && request_is_plain(flags, host_ptr)) {
		pools_count(&context->device->record->native_allocs, 1);
		context_trim(context);
		if (buffer_track(pool, context, made, flags, size, &watched.watched)) {
			device_account(context->device, (int64_t)size);
			record_made(&watched, (uint64_t)(uintptr_t)made, size,
				    (uint64_t)(uintptr_t)handle, opencl_device_of(handle), 0);
			return true;
		}
	} else if (pool) {
		if (context)
			pools_count_reason(context->device->record, LEDGER_POOL_HOST_POINTER);
		table_remove_stale(pool, made);
	}
	return false;
}

static enum ledger_pool_reason reason_for_hook(const struct hook *hook)
{
	static const struct {
		enum hook_id id;
		enum ledger_pool_reason reason;
	} reasons[] = {
		{ HOOK_clCreateBufferWithProperties, LEDGER_POOL_HOST_POINTER },
		{ HOOK_clCreateBufferWithPropertiesINTEL, LEDGER_POOL_HOST_POINTER },
		{ HOOK_clCreateBufferNV, LEDGER_POOL_HOST_POINTER },
		{ HOOK_clCreateFromGLBuffer, LEDGER_POOL_SHARED_OBJECT },
		{ HOOK_clCreateFromGLTexture, LEDGER_POOL_SHARED_OBJECT },
		{ HOOK_clCreateFromGLTexture2D, LEDGER_POOL_SHARED_OBJECT },
		{ HOOK_clCreateFromGLTexture3D, LEDGER_POOL_SHARED_OBJECT },
		{ HOOK_clCreateFromGLRenderbuffer, LEDGER_POOL_SHARED_OBJECT },
		{ HOOK_clCreateFromEGLImageKHR, LEDGER_POOL_SHARED_OBJECT },
		{ HOOK_clCreateFromVA_APIMediaSurfaceINTEL, LEDGER_POOL_SHARED_OBJECT },
		{ HOOK_clImportMemoryARM, LEDGER_POOL_SHARED_OBJECT },
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (hook == &hooks[reasons[i].id])
			return reasons[i].reason;
	return LEDGER_POOL_OTHER_KIND;
}

/* Records that the pool must not cache buffer HANDLE when it is released. Stores REASON, for the
 * statistics, unless the buffer already has a reason. */
static void buffer_never_cache(struct cl_pool *pool, cl_mem handle, enum ledger_pool_reason reason)
{
	struct cl_pool_shard *shard = shard_of(pool, (uint64_t)(uintptr_t)handle);
	unsigned int none = 0;
	struct cl_pool_buffer *object;

	shard_lock(shard);
	object = shard_lookup(shard, (uint64_t)(uintptr_t)handle);
	if (object)
		atomic_compare_exchange_strong(&object->reason, &none, reason + 1u);
	shard_unlock(shard);
}

void opencl_pool_created_other(struct call *call, cl_mem made, cl_context handle,
			       cl_mem parent)
{
	struct cl_pool *pool = cl_pool_current();
	struct cl_pool_context *context = pool ? cl_pool_lookup_context(pool, handle) : NULL;

	if (!pool)
		return;
	if (context)
		pools_count_reason(context->device->record, reason_for_hook(call->hook));
	table_remove_stale(pool, made);
	if (parent)
		buffer_never_cache(pool, parent, LEDGER_POOL_SUB_OBJECTS);
}

void opencl_pool_has_callback(cl_mem object)
{
	struct cl_pool *pool = cl_pool_current();

	if (pool)
		buffer_never_cache(pool, object, LEDGER_POOL_CALLBACK);
}

/* ---- reuse ---- */

static struct cl_pool_buffer *cache_remove_clean(struct cl_pool_context *context,
						 cl_mem_flags flags, size_t size)
{
	struct cl_pool_buffer *object;
	bool pending = false;

	for (bool polled = false;; polled = true) {
		cl_pool_lock(context);
		object = cache_find_clean(context, flags, size, &pending);
		if (object)
			cache_remove(context, object);
		cl_pool_unlock(context);
		if (object || !pending || polled)
			return object;
		cl_fences_poll(context);
	}
}

/* Call if the fence of OBJECT is complete. Returns true if the driver reports no reference except
 * the pool's, and no mapping. */
static bool buffer_is_idle(const struct cl_pool_context *context,
			   const struct cl_pool_buffer *object)
{
	return driver_mem_count(&context->calls, buffer_handle(object), CL_MEM_REFERENCE_COUNT) ==
		       1 &&
	       driver_mem_count(&context->calls, buffer_handle(object), CL_MEM_MAP_COUNT) == 0;
}

/* Puts OBJECT back into the cache: it is still in use, although its fence is complete and no known
 * object uses it. After BUSY_MAX times returns it to the driver instead. */
static void cache_reinsert(struct cl_pool_context *context, struct cl_pool_buffer *object)
{
	struct cl_pool_buffer *victims = NULL;
	uint64_t now = now_s();

	cl_pool_lock(context);
	if (++object->busy_count < BUSY_MAX && atomic_load(&context->handle))
		cache_insert(context, object, now);
	else
		victims = object;
	cl_pool_unlock(context);
	device_publish(context->device);
	if (!victims)
		return;
	victims->bucket_next = NULL;
	cl_pool_return(context, victims);
}

static void buffer_hand_out(struct call *call, struct cl_pool_context *context,
			    struct cl_pool_buffer *object, cl_context handle)
{
	struct call watched = *call;

	if (!object->end_recorded)
		buffer_record_end(object);
	object->end_recorded = false;
	object->busy_count = 0;
	object->references = 1;
	watched.watched = opencl_number();
	shared_publish(object->watched, watched.watched);
	buffer_set_state(object, BUFFER_LIVE);
	pools_count(&context->device->record->hits, 1);
	device_account(context->device, (int64_t)object->size);
	record_made(&watched, object->handle, object->size, (uint64_t)(uintptr_t)handle,
		    opencl_device_of(handle), 0);
}

cl_mem opencl_pool_alloc(struct call *call, cl_context handle, cl_mem_flags flags,
			 size_t size, void *host_ptr, cl_int *errcode_ret)
{
	struct cl_pool *pool = request_is_plain(flags, host_ptr) ? cl_pool_current() : NULL;
	struct cl_pool_context *context = pool ? cl_pool_lookup_context(pool, handle) : NULL;
	struct cl_pool_buffer *object;

	if (!context || !shared_load(context->order) ||
	    atomic_load_explicit(&pool->unseen_queues, memory_order_relaxed))
		return NULL;
	object = cache_remove_clean(context, flags, size);
	if (!object)
		return NULL;
	if (!buffer_is_idle(context, object)) {
		cache_reinsert(context, object);
		return NULL;
	}
	buffer_hand_out(call, context, object, handle);
	if (errcode_ret)
		*errcode_ret = CL_SUCCESS;
	return buffer_handle(object);
}

/* ---- release ---- */

/* The driver will release OBJECT. REASON: 1 + why it could not be cached, or 0. */
static void buffer_leave_to_driver(struct cl_pool *pool, struct cl_pool_buffer *object,
				   unsigned int reason)
{
	struct cl_pool_context *context = object->context;

	if (reason)
		pools_count_reason(context->device->record, reason - 1);
	pools_count(&context->device->record->native_frees, 1);
	device_account(context->device, -(int64_t)object->size);
	table_remove(pool, object);
}

/* Returns 1 + the reason why OBJECT may not be cached, or 0. *RET_USED: the driver reports
 * further references. */
static unsigned int buffer_reason_against(const struct cl_pool *pool,
					  const struct cl_pool_buffer *object, bool *ret_used)
{
	const struct cl_pool_context *context = object->context;
	cl_uint maps = driver_mem_count(&context->calls, buffer_handle(object), CL_MEM_MAP_COUNT);
	cl_uint references =
		driver_mem_count(&context->calls, buffer_handle(object), CL_MEM_REFERENCE_COUNT);

	*ret_used = references > 1;
	if (maps == ~0u || references == ~0u || references == 0)
		return LEDGER_POOL_OTHER_KIND + 1;
	if (maps || record_is_mapped(SPACE_CL_HANDLE, object->handle))
		return LEDGER_POOL_MAPPED + 1;
	if (object->size > device_limit(context->device))
		return LEDGER_POOL_TOO_LARGE + 1;
	if (context->unpoolable || atomic_load(&pool->unseen_queues))
		return LEDGER_POOL_QUEUES + 1;
	return 0;
}

/* OBJECT is in state BUFFER_RELEASING: no other thread uses it. Returns true if it is cached. */
static bool buffer_cache(struct cl_pool *pool, struct cl_pool_buffer *object)
{
	struct cl_pool_context *context = object->context;
	struct cl_pool_buffer *victims = NULL;
	bool busy, cached = false, over = false;
	unsigned int reason = buffer_reason_against(pool, object, &busy);
	int64_t size = (int64_t)object->size;

	if (!atomic_load(&context->handle)) {
		buffer_leave_to_driver(pool, object, 0);
		return false;
	}
	object->fence = reason ? 0 : cl_fence_get(context, busy);
	if (!reason && busy && object->fence <= context->completed)
		busy = driver_mem_count(&context->calls, buffer_handle(object),
					CL_MEM_REFERENCE_COUNT) != 1;
	if (!reason && (!object->fence || (busy && object->fence <= context->completed)))
		reason = LEDGER_POOL_QUEUES + 1; /* an unknown object holds a reference */
	if (!reason && !busy)
		buffer_record_end(object);
	if (!reason) {
		uint64_t now = now_s();

		cl_pool_lock(context);
		cached = atomic_load(&context->handle) && object->fence > context->failed;
		if (cached) {
			/* First, because the sum of both totals must not rise meanwhile. */
			shared_add(context->device->used, -size);
			cache_insert(context, object, now);
			device_publish(context->device);
			over = !object->end_recorded && object->fence <= context->completed;
			victims = cache_trim(context, device_limit(context->device), now);
		} else if (atomic_load(&context->handle)) {
			reason = LEDGER_POOL_QUEUES + 1; /* its marker has failed meanwhile */
		}
		cl_pool_unlock(context);
	}
	cl_pool_return(context, victims);
	if (over) /* the driver's callback came before OBJECT was in a list, and comes only once */
		cl_pool_fences_completed(context);
	if (!cached)
		buffer_leave_to_driver(pool, object, reason);
	else
		pools_count(&context->device->record->frees, 1);
	return cached;
}

enum release_kind { RELEASE_UNKNOWN, RELEASE_NOT_LAST, RELEASE_LAST, RELEASE_CACHED };

static enum release_kind shard_count_release(struct cl_pool_shard *shard, cl_mem handle,
					     struct cl_pool_buffer **ret)
{
	struct cl_pool_buffer *object;
	enum release_kind release_kind = RELEASE_UNKNOWN;

	shard_lock(shard);
	object = shard_lookup(shard, (uint64_t)(uintptr_t)handle);
	if (object && atomic_load(&object->state) != BUFFER_LIVE) {
		release_kind = RELEASE_CACHED;
	} else if (object && object->references > 1) {
		object->references--;
		release_kind = RELEASE_NOT_LAST;
	} else if (object) {
		buffer_set_state(object, BUFFER_RELEASING);
		release_kind = RELEASE_LAST;
	}
	shard_unlock(shard);
	*ret = object;
	return release_kind;
}

bool opencl_pool_release(cl_mem handle, cl_int *ret)
{
	struct cl_pool *pool = cl_pool_current();
	struct cl_pool_buffer *object;

	if (!pool || !handle)
		return false;
	switch (shard_count_release(shard_of(pool, (uint64_t)(uintptr_t)handle), handle, &object)) {
	case RELEASE_UNKNOWN:
	case RELEASE_NOT_LAST:
		return false;
	case RELEASE_CACHED: /* the driver would free the cached buffer */
		*ret = CL_INVALID_MEM_OBJECT;
		return true;
	case RELEASE_LAST:
		break;
	}
	if (atomic_load(&object->reason)) {
		buffer_leave_to_driver(pool, object, atomic_load(&object->reason));
		return false;
	}
	*ret = CL_SUCCESS;
	return buffer_cache(pool, object);
}

/* ---- retain ---- */

/* Drivers accept a retain after the last release while commands still use the buffer. So takes
 * OBJECT out of the cache and makes it live again. Returns false if it is not in the cache. */
static bool buffer_revive(struct cl_pool_buffer *object, cl_mem handle)
{
	struct cl_pool_context *context = object->context;
	bool revived;

	cl_pool_lock(context);
	revived = atomic_load(&object->state) == BUFFER_CACHED &&
		  object->handle == (uint64_t)(uintptr_t)handle && !object->end_recorded;
	if (revived) {
		cache_remove(context, object);
		object->references = 1;
		buffer_set_state(object, BUFFER_LIVE);
		device_account(context->device, (int64_t)object->size);
	}
	cl_pool_unlock(context);
	return revived;
}

bool opencl_pool_retain(cl_mem handle, cl_int *ret)
{
	struct cl_pool_buffer *object;
	struct cl_pool_shard *shard = shard_lock_of(handle, &object);
	bool live;

	if (!shard)
		return false;
	live = object && atomic_load(&object->state) == BUFFER_LIVE;
	if (live)
		object->references++;
	shard_unlock(shard);
	if (!object || live)
		return false;
	*ret = buffer_revive(object, handle) ? CL_SUCCESS : CL_INVALID_MEM_OBJECT;
	return true;
}

void opencl_pool_retain_failed(cl_mem handle)
{
	struct cl_pool_buffer *object;
	struct cl_pool_shard *shard = shard_lock_of(handle, &object);

	if (!shard)
		return;
	if (object && object->references > 1)
		object->references--;
	shard_unlock(shard);
}

bool opencl_pool_is_cached(cl_mem handle)
{
	struct cl_pool_buffer *object;
	struct cl_pool_shard *shard = shard_lock_of(handle, &object);
	bool cached;

	if (!shard)
		return false;
	cached = object &&
		 (atomic_load(&object->state) == BUFFER_CACHED ||
		  atomic_load(&object->state) == BUFFER_RELEASING) &&
		 object->end_recorded;
	shard_unlock(shard);
	return cached;
}
