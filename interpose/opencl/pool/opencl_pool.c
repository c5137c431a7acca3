/* SPDX-License-Identifier: MIT
 *
 * Buffers of OpenCL that are kept and handed out again: which of them, for whom, and when they
 * go. The pool holds the driver's last reference of a kept buffer, so that all that the driver
 * answers of it stays true; references before the last one are the driver's to count. When a
 * buffer is clean is opencl_fence.c's to say. A buffer that the driver says has more
 * references than ours (its own commands on some, callers that we do not see) is not handed out.
 */
#include <dlfcn.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "interpose/base/config.h"
#include "interpose/block/mappings.h"
#include "interpose/dispatch/loader.h"
#include "interpose/opencl/pool/opencl_pool_internal.h"
#include "interpose/block/pool_counters.h"
#include "interpose/recorder/recorder.h"

#define BOUND_LEAST ((uint64_t)64 << 20)
#define BUSY_MAX 16

/* Flags that say nothing of host memory, nor anything that we do not know. */
#define PLAIN_FLAGS                                                                      \
	((cl_mem_flags)(CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY |       \
			CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS))

/* ---- the driver ---- */

static cl_int release_mem(const struct kept_calls *calls, cl_mem object)
{
	const struct route route = { calls->release_mem, true, calls->below };
	INSIDE(&hooks[HOOK_clReleaseMemObject], route);

	return ((cl_int(*)(cl_mem))route.real)(object);
}

static cl_uint count_of(const struct kept_calls *calls, cl_mem object, cl_mem_info what)
{
	const struct route route = { calls->mem_info, true, calls->below };
	INSIDE(&hooks[HOOK_clGetMemObjectInfo], route);
	cl_uint count = 0;
	cl_int r;

	r = ((cl_int(*)(cl_mem, cl_mem_info, size_t, void *, size_t *))route.real)(
		object, what, sizeof(count), &count, NULL);
	return r == CL_SUCCESS ? count : ~0u;
}

static cl_mem handle_of(const struct kept *object)
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

static struct kept_shard *shard_of(struct opencl_kept *pool, uint64_t handle)
{
	return &pool->shards[table_mix(handle) >> 58];
}
_Static_assert(KEPT_SHARDS == 64, "shard_of takes six bits");

static void shard_lock(struct kept_shard *shard)
{
	(void)!recorder_enter();
	lock_take(&shard->lock);
}

static void shard_unlock(struct kept_shard *shard)
{
	lock_give(&shard->lock);
	recorder_leave();
}

static struct kept *find(struct kept_shard *shard, uint64_t handle)
{
	struct kept *object;

	TABLE_FIND(shard->objects, &handle, object);
	return object;
}

/* It is the driver's from now on; its memory is ours until the driver says that it is gone. */
static void forget_locked(struct opencl_kept *pool, struct kept_shard *shard, struct kept *object)
{
	struct arena *arena = pool->arena;

	if (find(shard, object->handle) == object)
		HASH_DEL(shard->objects, object);
	atomic_store(&object->state, KEPT_GONE);
	(void)arena;
}

static void forget(struct opencl_kept *pool, struct kept *object)
{
	struct kept_shard *shard = shard_of(pool, object->handle);

	shard_lock(shard);
	forget_locked(pool, shard, object);
	shard_unlock(shard);
}

static bool add(struct opencl_kept *pool, struct kept *object)
{
	struct kept_shard *shard = shard_of(pool, object->handle);
	struct arena *arena = pool->arena;
	struct kept *stale;
	bool added;

	shard_lock(shard);
	stale = find(shard, object->handle);
	if (stale)
		forget_locked(pool, shard, stale);
	TABLE_ADD(shard->objects, handle, object);
	added = object->hh.tbl != NULL;
	shard_unlock(shard);
	return added;
}

/* ---- counting ---- */

static void publish(struct kept_device *device)
{
	int64_t in_use = atomic_load_explicit(&device->used, memory_order_relaxed);
	int64_t kept = atomic_load_explicit(&device->kept, memory_order_relaxed);
	int64_t pending = atomic_load_explicit(&device->pending, memory_order_relaxed);
	struct ledger_pool *row = device->row;
	uint64_t reserved = (uint64_t)(in_use + kept);

	if (pending > kept)
		pending = kept;
	__atomic_store_n(&row->reserved, reserved, __ATOMIC_RELAXED);
	__atomic_store_n(&row->pending, (uint64_t)pending, __ATOMIC_RELAXED);
	__atomic_store_n(&row->cached, (uint64_t)(kept - pending), __ATOMIC_RELAXED);
	pools_raise(&row->peak_reserved, reserved);
	pools_raise(&row->peak_used, (uint64_t)in_use);
}

/* BYTES pass from one to the other, or come from the driver, or go to it. */
static void account(struct kept_device *device, int64_t in_use, int64_t kept)
{
	if (in_use)
		atomic_fetch_add_explicit(&device->used, in_use, memory_order_relaxed);
	if (kept)
		atomic_fetch_add_explicit(&device->kept, kept, memory_order_relaxed);
	publish(device);
}

static void count_reason(const struct kept_context *context, enum ledger_pool_reason reason)
{
	pools_count(&context->device->row->reasons[reason], 1);
}

static uint64_t bound_of(const struct kept_device *device)
{
	uint64_t bound = __atomic_load_n(&device->row->peak_used, __ATOMIC_RELAXED) / 10;

	if (config.pool_cache != OPTION_UNSET)
		return option_amount(config.pool_cache, device->total);
	return bound > BOUND_LEAST ? bound : BOUND_LEAST;
}

/* ---- what is kept: with the context's lock ---- */

static struct kept **bucket_of(struct kept_context *context, cl_mem_flags flags, size_t size)
{
	uint64_t mixed = table_mix(size ^ flags << 48);

	return &context->bucket[mixed >> 56];
}
_Static_assert(KEPT_BUCKETS == 256, "bucket_of takes eight bits");

static void link_in(struct kept_context *context, struct kept *object)
{
	struct kept **bucket = bucket_of(context, object->flags, object->size);

	object->since_s = now_s();
	DL_APPEND(context->order, object);
	DL_APPEND2(*bucket, object, up, down);
	if (!object->told)
		DL_APPEND2(context->untold, object, left, right);
	ticket_bytes(context, object->ticket, (int64_t)object->size);
	atomic_store(&object->state, KEPT_READY);
	account(context->device, 0, (int64_t)object->size);
}

static void take_out(struct kept_context *context, struct kept *object)
{
	struct kept **bucket = bucket_of(context, object->flags, object->size);

	DL_DELETE(context->order, object);
	DL_DELETE2(*bucket, object, up, down);
	if (!object->told)
		DL_DELETE2(context->untold, object, left, right);
	ticket_bytes(context, object->ticket, -(int64_t)object->size);
	atomic_store(&object->state, KEPT_LEAVING);
	account(context->device, 0, -(int64_t)object->size);
}

/* Puts OBJECT in front of VICTIMS. */
static struct kept *make_victim(struct kept_context *context, struct kept *object,
				struct kept *victims)
{
	take_out(context, object);
	object->down = victims;
	return object;
}

struct kept *kept_take_all(struct kept_context *context)
{
	struct kept *victims = NULL;

	while (context->order)
		victims = make_victim(context, context->order, victims);
	return victims;
}

static bool is_clean(const struct kept_context *context, const struct kept *object)
{
	return object->ticket <= context->done && object->ticket > context->failed;
}

static bool is_like(const struct kept *object, cl_mem_flags flags, size_t size)
{
	return object->size == size && object->flags == flags;
}

/* The newest that is clean, for the caches' sake, or the oldest. *RET_PENDING: there is one
 * that is not clean yet. */
static struct kept *pick(struct kept_context *context, cl_mem_flags flags, size_t size,
			 bool *ret_pending)
{
	struct kept *first = *bucket_of(context, flags, size), *object = first ? first->up : NULL;

	while (object && !is_like(object, flags, size))
		object = object == first ? NULL : object->up;
	if (!object || is_clean(context, object))
		return object;
	for (object = first; !is_like(object, flags, size); object = object->down)
		;
	*ret_pending = true;
	return is_clean(context, object) ? object : NULL;
}

/* ---- to the driver ---- */

/* The block of OBJECT has ended, as far as the application can know. */
static void tell(struct kept *object)
{
	object->told = true;
	record_destroyed(API_OPENCL, object->handle, atomic_load(&object->watched));
}

uint64_t kept_let_go(struct kept_context *context, struct kept *victims)
{
	struct opencl_kept *pool = kept_pool();
	struct ledger_pool *row = context->device->row;
	const struct kept_calls calls = context->calls;
	uint64_t bytes = 0, count = 0;
	struct kept *next;

	for (; pool && victims; victims = next) {
		next = victims->down;
		bytes += victims->size;
		count++;
		forget(pool, victims);
		release_mem(&calls, handle_of(victims)); /* it may be gone: said to on_gone() */
	}
	if (count) {
		pools_count(&row->trims, 1);
		pools_count(&row->trimmed, count);
		pools_count(&row->trimmed_bytes, bytes);
		pools_count(&row->native_frees, count);
	}
	return bytes;
}

/* Oldest out first, until BOUND holds; what was not used for long, too. */
static struct kept *trim(struct kept_context *context, uint64_t bound)
{
	struct kept *victims = NULL, *object;
	uint64_t now = now_s(), decay = (uint64_t)config.pool_decay;

	while ((object = context->order) != NULL) {
		bool over = (uint64_t)atomic_load(&context->device->kept) > bound;
		bool old = decay && now - object->since_s >= decay && is_clean(context, object);

		if (!over && !old)
			break;
		victims = make_victim(context, object, victims);
	}
	return victims;
}

static void trim_now(struct kept_context *context)
{
	uint64_t bound = bound_of(context->device);
	struct kept *victims;

	if (!__atomic_load_n(&context->order, __ATOMIC_RELAXED))
		return;
	kept_lock(context);
	victims = trim(context, bound);
	kept_unlock(context);
	kept_let_go(context, victims);
}

/* Those that wait to be told, in portions; and what waited for a marker that failed. */
void kept_tickets_done(struct kept_context *context)
{
	struct kept *victims = NULL, *object, *next;
	struct { uint64_t handle, watched; } told[32];
	unsigned int count;

	publish(context->device);
	do {
		count = 0;
		kept_lock(context);
		DL_FOREACH_SAFE2(context->untold, object, next, right) {
			if (object->ticket > context->done || object->ticket <= context->failed ||
			    count == 32)
				continue;
			told[count].handle = object->handle;
			told[count++].watched = atomic_load(&object->watched);
			DL_DELETE2(context->untold, object, left, right);
			object->told = true;
		}
		kept_unlock(context);
		for (unsigned int i = 0; i < count; i++)
			record_destroyed(API_OPENCL, told[i].handle, told[i].watched);
	} while (count == 32);
	kept_lock(context);
	if (context->dropped != context->failed) {
		context->dropped = context->failed;
		DL_FOREACH_SAFE(context->order, object, next) {
			if (object->ticket <= context->failed)
				victims = make_victim(context, object, victims);
		}
	}
	kept_unlock(context);
	kept_let_go(context, victims);
}

uint64_t opencl_pool_return_all(void)
{
	struct opencl_kept *pool = kept_pool();
	uint64_t bytes = 0;

	for (unsigned int i = 0; pool && i < KEPT_CONTEXTS; i++) {
		struct kept_context *context = &pool->contexts[i];
		struct kept *victims;

		if (!__atomic_load_n(&context->order, __ATOMIC_RELAXED))
			continue;
		kept_lock(context);
		victims = kept_take_all(context);
		kept_unlock(context);
		bytes += kept_let_go(context, victims);
	}
	return bytes;
}

struct ledger_pool *opencl_pool_relieve_command(cl_int code)
{
	struct opencl_kept *pool = code == CL_MEM_OBJECT_ALLOCATION_FAILURE ? kept_pool() : NULL;
	struct ledger_pool *row = NULL;

	for (unsigned int i = 0; pool && i < KEPT_DEVICES && !row; i++)
		if (atomic_load(&pool->devices[i].kept) > 0)
			row = pool->devices[i].row;
	return row && opencl_pool_return_all() ? row : NULL;
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
	struct opencl_kept *pool;

	if (strcmp(name, "clCreateCommandQueueWithPropertiesKHR") != 0 &&
	    strcmp(name, "clCreateCommandBufferKHR") != 0)
		return;
	pool = recorder ? __atomic_load_n(&recorder->opencl_kept, __ATOMIC_ACQUIRE) : NULL;
	if (pool)
		atomic_store(&pool->unseen, true);
}

void opencl_pool_library_gone(void)
{
	struct opencl_kept *pool = kept_pool();

	for (unsigned int i = 0; pool && i < KEPT_CONTEXTS; i++) {
		struct kept_context *context = &pool->contexts[i];

		if (!atomic_load(&context->handle) || !context->calls.release_mem ||
		    lookup_module(context->calls.release_mem))
			continue;
		kept_lock(context);
		atomic_store(&context->handle, NULL); /* nobody can be called any more */
		context->done = context->issued;
		while (context->order)
			take_out(context, context->order);
		kept_unlock(context);
	}
}

/* ---- made ---- */

/* Released by a call that we did not see. */
static void gone_unseen(struct opencl_kept *pool, struct kept_context *context,
			struct kept *object)
{
	kept_lock(context);
	if (atomic_load(&object->state) == KEPT_READY)
		take_out(context, object);
	else
		account(context->device, -(int64_t)object->size, 0);
	kept_unlock(context);
	forget(pool, object);
}

/* The driver's word that the memory is gone, on whatever thread. */
static void CL_CALLBACK on_gone(cl_mem object, void *data)
{
	struct opencl_kept *pool = kept_pool();
	struct kept *kept = data;
	struct kept_context *context = kept->context;

	record_destroyed(API_OPENCL, (uint64_t)(uintptr_t)object, atomic_load(&kept->watched));
	if (!pool || context < pool->contexts || context >= pool->contexts + KEPT_CONTEXTS)
		return; /* of a parent process, or inside of us: its few bytes stay */
	if (atomic_load(&kept->state) != KEPT_GONE)
		gone_unseen(pool, context, kept);
	atomic_fetch_sub(&context->objects, 1);
	if (recorder_enter()) {
		arena_give(pool->arena, kept, sizeof(*kept));
		recorder_leave();
	}
}

static struct kept *new_kept(struct opencl_kept *pool)
{
	struct kept *object = NULL;

	if (recorder_enter()) {
		object = arena_take(pool->arena, sizeof(*object));
		recorder_leave();
	}
	return object;
}

/* Whether MADE is followed: then its block waits for what *RET says. */
static bool follow(struct opencl_kept *pool, struct kept_context *context, cl_mem made,
		   cl_mem_flags flags, size_t size, uint64_t *ret_watched)
{
	struct kept *object = new_kept(pool);
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
	if (!add(pool, object)) {
		count_reason(context, LEDGER_POOL_NO_MEMORY);
		return false;
	}
	atomic_fetch_add(&context->objects, 1);
	if (!opencl_watch(made, on_gone, object)) { /* OpenCL 1.0 */
		forget(pool, object);
		atomic_fetch_sub(&context->objects, 1);
		return false;
	}
	*ret_watched = watched;
	return true;
}

static bool is_plain(cl_mem_flags flags, const void *host_ptr)
{
	return !host_ptr && !(flags & ~PLAIN_FLAGS);
}

static void forget_stale(struct opencl_kept *pool, cl_mem made)
{
	struct kept_shard *shard = shard_of(pool, (uint64_t)(uintptr_t)made);
	struct kept *stale;

	shard_lock(shard);
	stale = find(shard, (uint64_t)(uintptr_t)made);
	if (stale)
		forget_locked(pool, shard, stale);
	shard_unlock(shard);
}

bool opencl_pool_made(const struct site *site, cl_mem made, cl_context handle,
		      cl_mem_flags flags, size_t size, void *host_ptr)
{
	struct opencl_kept *pool = opencl_pool_is_on() ? kept_pool() : NULL;
	struct kept_context *context = pool ? kept_find(pool, handle) : NULL;
	struct site watched = *site;

	if (context && is_plain(flags, host_ptr)) {
		pools_count(&context->device->row->native_allocs, 1);
		trim_now(context);
		if (follow(pool, context, made, flags, size, &watched.watched)) {
			account(context->device, (int64_t)size, 0);
			record_made(&watched, (uint64_t)(uintptr_t)made, size,
				    (uint64_t)(uintptr_t)handle, opencl_device_of(handle), 0);
			return true;
		}
	} else if (pool) {
		if (context)
			count_reason(context, LEDGER_POOL_HOST_POINTER);
		forget_stale(pool, made);
	}
	return false;
}

static enum ledger_pool_reason reason_of(const struct hook *hook)
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

/* Never again, whatever becomes of it: the first reason counts. */
static void never_keep(struct opencl_kept *pool, cl_mem handle, enum ledger_pool_reason reason)
{
	struct kept_shard *shard = shard_of(pool, (uint64_t)(uintptr_t)handle);
	unsigned int none = 0;
	struct kept *object;

	shard_lock(shard);
	object = find(shard, (uint64_t)(uintptr_t)handle);
	if (object)
		atomic_compare_exchange_strong(&object->reason, &none, reason + 1u);
	shard_unlock(shard);
}

void opencl_pool_other(const struct site *site, cl_mem made, cl_context handle, cl_mem parent)
{
	struct opencl_kept *pool = kept_pool();
	struct kept_context *context = pool ? kept_find(pool, handle) : NULL;

	if (!pool)
		return;
	if (context)
		count_reason(context, reason_of(site->hook));
	forget_stale(pool, made);
	if (parent)
		never_keep(pool, parent, LEDGER_POOL_SUB_OBJECTS);
}

void opencl_pool_has_callback(cl_mem object)
{
	struct opencl_kept *pool = kept_pool();

	if (pool)
		never_keep(pool, object, LEDGER_POOL_CALLBACK);
}

/* ---- handed out ---- */

static struct kept *take_clean(struct kept_context *context, cl_mem_flags flags, size_t size)
{
	struct kept *object;
	bool pending = false;

	kept_lock(context);
	object = pick(context, flags, size, &pending);
	if (object)
		take_out(context, object);
	kept_unlock(context);
	if (object || !pending)
		return object;
	ticket_poll(context);
	kept_lock(context);
	object = pick(context, flags, size, &pending);
	if (object)
		take_out(context, object);
	kept_unlock(context);
	return object;
}

/* The ticket said so; the driver has the last word. */
static bool is_idle(const struct kept_context *context, const struct kept *object)
{
	return count_of(&context->calls, handle_of(object), CL_MEM_REFERENCE_COUNT) == 1 &&
	       count_of(&context->calls, handle_of(object), CL_MEM_MAP_COUNT) == 0;
}

/* It is still in use, though nothing that we know of can use it. */
static void put_back(struct kept_context *context, struct kept *object)
{
	struct kept *victims = NULL;

	kept_lock(context);
	if (++object->busy < BUSY_MAX && atomic_load(&context->handle))
		link_in(context, object);
	else
		victims = object;
	kept_unlock(context);
	if (!victims)
		return;
	victims->down = NULL;
	kept_let_go(context, victims);
}

static void hand_out(const struct site *site, struct kept_context *context, struct kept *object,
		     cl_context handle)
{
	struct site watched = *site;

	if (!object->told)
		tell(object);
	object->told = false;
	object->busy = 0;
	object->references = 1;
	watched.watched = opencl_number();
	atomic_store(&object->watched, watched.watched);
	atomic_store(&object->state, KEPT_LIVE);
	pools_count(&context->device->row->hits, 1);
	account(context->device, (int64_t)object->size, 0);
	record_made(&watched, object->handle, object->size, (uint64_t)(uintptr_t)handle,
		    opencl_device_of(handle), 0);
}

cl_mem opencl_pool_take(const struct site *site, cl_context handle, cl_mem_flags flags,
			size_t size, void *host_ptr, cl_int *errcode_ret)
{
	struct opencl_kept *pool = is_plain(flags, host_ptr) ? kept_pool() : NULL;
	struct kept_context *context = pool ? kept_find(pool, handle) : NULL;
	struct kept *object;

	if (!context || !__atomic_load_n(&context->order, __ATOMIC_RELAXED) ||
	    atomic_load_explicit(&pool->unseen, memory_order_relaxed))
		return NULL;
	object = take_clean(context, flags, size);
	if (!object)
		return NULL;
	if (!is_idle(context, object)) {
		put_back(context, object);
		return NULL;
	}
	hand_out(site, context, object, handle);
	if (errcode_ret)
		*errcode_ret = CL_SUCCESS;
	return handle_of(object);
}

/* ---- released ---- */

/* The driver will release it. REASON: why, if it could have been kept. */
static void leave_to_driver(struct opencl_kept *pool, struct kept *object, unsigned int reason)
{
	struct kept_context *context = object->context;

	if (reason)
		count_reason(context, reason - 1);
	pools_count(&context->device->row->native_frees, 1);
	account(context->device, -(int64_t)object->size, 0);
	forget(pool, object);
}

/* What OBJECT's use forbids, as 1 + reason; *RET_USED: something holds it. */
static unsigned int look_at(const struct opencl_kept *pool, const struct kept *object,
			    bool *ret_used)
{
	const struct kept_context *context = object->context;
	cl_uint maps = count_of(&context->calls, handle_of(object), CL_MEM_MAP_COUNT);
	cl_uint references = count_of(&context->calls, handle_of(object), CL_MEM_REFERENCE_COUNT);

	*ret_used = references > 1;
	if (maps == ~0u || references == ~0u || references == 0)
		return LEDGER_POOL_OTHER_KIND + 1;
	if (maps || record_is_mapped(API_OPENCL, object->handle))
		return LEDGER_POOL_MAPPED + 1;
	if (object->size > bound_of(context->device))
		return LEDGER_POOL_TOO_LARGE + 1;
	if (context->unpoolable || atomic_load(&pool->unseen))
		return LEDGER_POOL_QUEUES + 1;
	return 0;
}

/* OBJECT is leaving, and in nobody's hands but ours. Whether it is kept. */
static bool keep(struct opencl_kept *pool, struct kept *object)
{
	struct kept_context *context = object->context;
	struct kept *victims = NULL;
	bool busy, kept = false, over = false;
	unsigned int reason = look_at(pool, object, &busy);
	int64_t size = (int64_t)object->size;

	if (!atomic_load(&context->handle)) {
		leave_to_driver(pool, object, 0);
		return false;
	}
	object->ticket = reason ? 0 : ticket_get(context, busy);
	if (!reason && busy && object->ticket <= context->done)
		busy = count_of(&context->calls, handle_of(object), CL_MEM_REFERENCE_COUNT) != 1;
	if (!reason && (!object->ticket || (busy && object->ticket <= context->done)))
		reason = LEDGER_POOL_QUEUES + 1; /* held by what we know nothing of */
	if (!reason && !busy)
		tell(object);
	if (!reason) {
		kept_lock(context);
		kept = atomic_load(&context->handle) && object->ticket > context->failed;
		if (kept) {
			account(context->device, -size, 0);
			link_in(context, object);
			over = !object->told && object->ticket <= context->done;
			victims = trim(context, bound_of(context->device));
		} else if (atomic_load(&context->handle)) {
			reason = LEDGER_POOL_QUEUES + 1; /* its marker has failed by now */
		}
		kept_unlock(context);
	}
	kept_let_go(context, victims);
	if (over) /* the driver said so before OBJECT was in a list, and says it once */
		kept_tickets_done(context);
	if (!kept)
		leave_to_driver(pool, object, reason);
	else
		pools_count(&context->device->row->frees, 1);
	return kept;
}

enum held { HELD_BY_NOBODY, HELD_STILL, HELD_LAST, HELD_KEPT };

static enum held count_down(struct kept_shard *shard, cl_mem handle, struct kept **ret)
{
	struct kept *object;
	enum held held = HELD_BY_NOBODY;

	shard_lock(shard);
	object = find(shard, (uint64_t)(uintptr_t)handle);
	if (object && atomic_load(&object->state) != KEPT_LIVE) {
		held = HELD_KEPT;
	} else if (object && object->references > 1) {
		object->references--;
		held = HELD_STILL;
	} else if (object) {
		atomic_store(&object->state, KEPT_LEAVING);
		held = HELD_LAST;
	}
	shard_unlock(shard);
	*ret = object;
	return held;
}

bool opencl_pool_release(cl_mem handle, cl_int *ret)
{
	struct opencl_kept *pool = kept_pool();
	struct kept *object;

	if (!pool || !handle)
		return false;
	switch (count_down(shard_of(pool, (uint64_t)(uintptr_t)handle), handle, &object)) {
	case HELD_BY_NOBODY:
	case HELD_STILL:
		return false;
	case HELD_KEPT: /* the driver would really free it */
		*ret = CL_INVALID_MEM_OBJECT;
		return true;
	case HELD_LAST:
		break;
	}
	if (atomic_load(&object->reason)) {
		leave_to_driver(pool, object, atomic_load(&object->reason));
		return false;
	}
	*ret = CL_SUCCESS;
	return keep(pool, object);
}

/* ---- retained ---- */

/* Released while commands had it, as drivers let it: it is the application's again. */
static bool revive(struct kept *object, cl_mem handle)
{
	struct kept_context *context = object->context;
	bool revived;

	kept_lock(context);
	revived = atomic_load(&object->state) == KEPT_READY &&
		  object->handle == (uint64_t)(uintptr_t)handle && !object->told;
	if (revived) {
		take_out(context, object);
		object->references = 1;
		atomic_store(&object->state, KEPT_LIVE);
		account(context->device, (int64_t)object->size, 0);
	}
	kept_unlock(context);
	return revived;
}

bool opencl_pool_retain(cl_mem handle, cl_int *ret)
{
	struct opencl_kept *pool = kept_pool();
	struct kept_shard *shard;
	struct kept *object;
	bool live;

	if (!pool || !handle)
		return false;
	shard = shard_of(pool, (uint64_t)(uintptr_t)handle);
	shard_lock(shard);
	object = find(shard, (uint64_t)(uintptr_t)handle);
	live = object && atomic_load(&object->state) == KEPT_LIVE;
	if (live)
		object->references++;
	shard_unlock(shard);
	if (!object || live)
		return false;
	*ret = revive(object, handle) ? CL_SUCCESS : CL_INVALID_MEM_OBJECT;
	return true;
}

void opencl_pool_retain_failed(cl_mem handle)
{
	struct opencl_kept *pool = kept_pool();
	struct kept_shard *shard;
	struct kept *object;

	if (!pool || !handle)
		return;
	shard = shard_of(pool, (uint64_t)(uintptr_t)handle);
	shard_lock(shard);
	object = find(shard, (uint64_t)(uintptr_t)handle);
	if (object && object->references > 1)
		object->references--;
	shard_unlock(shard);
}

bool opencl_pool_is_kept(cl_mem handle)
{
	struct opencl_kept *pool = kept_pool();
	struct kept_shard *shard;
	struct kept *object;
	bool kept;

	if (!pool || !handle)
		return false;
	shard = shard_of(pool, (uint64_t)(uintptr_t)handle);
	shard_lock(shard);
	object = find(shard, (uint64_t)(uintptr_t)handle);
	kept = object && (atomic_load(&object->state) == KEPT_READY ||
			  atomic_load(&object->state) == KEPT_LEAVING) && object->told;
	shard_unlock(shard);
	return kept;
}
