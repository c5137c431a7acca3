/* SPDX-License-Identifier: MIT
 *
 * Decides when a released buffer is clean. After the release, the pool puts a marker into every
 * queue of the buffer's context; the buffer is clean when these markers are complete. Owns
 * contexts, their queues and the markers. The pool puts no other command into the application's
 * queues, and flushes a queue only for one of its markers. A context with a single in-order queue
 * gets no shortcut. Immediate reuse is safe only if all commands of the next owner use that queue.
 * The application may create another queue later.
 */
#include <string.h>

#include "interpose/base/config.h"
#include "interpose/opencl/pool/opencl_pool_internal.h"
#include "interpose/block/pool_counters.h"
#include "interpose/recorder/recorder.h"
#include "ledger/shared.h"

_Atomic bool opencl_pool_on READ_BY_ALL;
_Atomic bool opencl_pool_work;

/* ---- the driver ---- */

/* Returns CL_QUEUED ... CL_COMPLETE, or an error. */
static cl_int driver_event_status(const struct cl_pool_context *context, cl_event event)
{
	cl_int status = CL_QUEUED, r;

	r = context->calls.event_info(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
				      &status, NULL);
	return r == CL_SUCCESS ? status : r;
}

void cl_pool_release_events(const struct cl_pool_context *context,
			    const struct cl_pool_events *events)
{
	for (unsigned int i = 0; i < events->count; i++)
		if (events->events[i])
			CL_POOL_CALL(&context->calls, release_event, clReleaseEvent,
				     events->events[i]);
}

/* ---- epochs of enqueued commands ---- */

/* Returns a number that changes when a command was enqueued. Two equal numbers: no command was
 * enqueued between the calls. */
static uint64_t work_epoch(void)
{
	static _Atomic uint64_t epochs;

	if (atomic_load(&opencl_pool_work) && atomic_exchange(&opencl_pool_work, false))
		return atomic_fetch_add(&epochs, 1) + 1;
	return atomic_load(&epochs);
}

/* ---- queues ---- */

struct queues {
	unsigned int count;
	cl_command_queue handle[CL_POOL_QUEUES];
};

/* Locking: needs CONTEXT's lock. Stores CONTEXT's queues in *RET. None of them is released to the
 * driver before queues_release(). */
static void queues_acquire(struct cl_pool_context *context, struct queues *ret)
{
	ret->count = context->queue_count;
	for (unsigned int i = 0; i < ret->count; i++) {
		ret->handle[i] = context->queues[i].handle;
		context->queues[i].users++;
	}
}

static struct cl_pool_queue *queue_lookup(struct cl_pool_context *context, cl_command_queue handle)
{
	for (unsigned int i = 0; i < context->queue_count; i++)
		if (context->queues[i].handle == handle)
			return &context->queues[i];
	return NULL;
}

static void queue_remove(struct cl_pool_context *context, struct cl_pool_queue *queue)
{
	*queue = context->queues[--context->queue_count];
}

static void queues_release(struct cl_pool_context *context, const struct queues *queues)
{
	struct queues dead = { 0 };

	cl_pool_lock(context);
	for (unsigned int i = 0; i < queues->count; i++) {
		struct cl_pool_queue *queue = queue_lookup(context, queues->handle[i]);

		if (!queue || --queue->users || !queue->dying)
			continue;
		dead.handle[dead.count++] = queue->handle;
		queue_remove(context, queue);
	}
	cl_pool_unlock(context);
	for (unsigned int i = 0; i < dead.count; i++)
		CL_POOL_CALL(&context->calls, release_queue, clReleaseCommandQueue, dead.handle[i]);
}

/* ---- fences; Locking: need the context's lock, unless a comment says otherwise ---- */

static struct cl_pool_fence *fence_by_number(struct cl_pool_context *context, uint64_t number)
{
	struct cl_pool_fence *fence = &context->ring[number % CL_POOL_FENCES];

	return number > context->completed && number <= context->last_issued ? fence : NULL;
}

void cl_fence_add_bytes(struct cl_pool_context *context, uint64_t number, int64_t bytes)
{
	struct cl_pool_fence *fence = fence_by_number(context, number);

	if (!fence)
		return;
	fence->bytes += (uint64_t)bytes;
	atomic_fetch_add_explicit(&context->device->pending, bytes, memory_order_relaxed);
}

static bool fence_is_complete(const struct cl_pool_fence *fence)
{
	return fence->ready &&
	       (fence->failed || fence->completed_markers == ((uint64_t)1 << fence->count) - 1);
}
_Static_assert(CL_POOL_QUEUES < 64, "completed_markers has a bit for each marker");

/* Removes the oldest fences from the ring while they are complete and *RET has room for their
 * events. Returns true if it removed any. */
static bool fences_advance(struct cl_pool_context *context, struct cl_pool_events *ret)
{
	bool any = false;

	while (!context->polling && context->completed < context->last_issued) {
		struct cl_pool_fence *fence = fence_by_number(context, context->completed + 1);

		if (!fence_is_complete(fence) || ret->count + fence->count > 2 * CL_POOL_QUEUES)
			break;
		memcpy(&ret->events[ret->count], fence->events,
		       fence->count * sizeof(fence->events[0]));
		ret->count += fence->count;
		cl_fence_add_bytes(context, fence->number, -(int64_t)fence->bytes);
		context->completed = fence->number;
		if (fence->failed)
			context->failed = fence->number;
		any = true;
	}
	return any;
}

/* Call without a lock. */
static void fences_complete(struct cl_pool_context *context)
{
	struct cl_pool_events events;
	bool any;

	do {
		events.count = 0;
		cl_pool_lock(context);
		any = fences_advance(context, &events);
		cl_pool_unlock(context);
		cl_pool_release_events(context, &events);
		if (any)
			cl_pool_fences_completed(context);
	} while (any);
}

/* ---- callbacks of the driver, on any thread ---- */

/* The callback's argument: the marker, the context and the fence's number. Fence numbers in one
 * element of the array of contexts never repeat. */
#define NOTE_MARKER_BITS 5
#define NOTE_CONTEXT_BITS 6
_Static_assert(CL_POOL_QUEUES == 1 << NOTE_MARKER_BITS, "NOTE_MARKER_BITS bits number each marker");
_Static_assert(CL_POOL_CONTEXTS == 1 << NOTE_CONTEXT_BITS,
	       "NOTE_CONTEXT_BITS bits number each context");

static void CL_CALLBACK on_marker(cl_event event, cl_int status, void *note)
{
	struct cl_pool *pool = cl_pool_current();
	uint64_t word = (uint64_t)(uintptr_t)note;
	struct cl_pool_context *context;
	struct cl_pool_fence *fence;
	unsigned int marker = word % CL_POOL_QUEUES;

	(void)event;
	if (!pool)
		return;
	word >>= NOTE_MARKER_BITS;
	context = &pool->contexts[word % CL_POOL_CONTEXTS];
	cl_pool_lock(context);
	fence = fence_by_number(context, word >> NOTE_CONTEXT_BITS);
	if (fence) {
		fence->completed_markers |= (uint64_t)1 << marker;
		fence->failed = fence->failed || status < 0;
	}
	cl_pool_unlock(context);
	fences_complete(context);
	cl_fences_poll(
		context); /* an earlier fence without a callback may block this one */
}

static void marker_set_callback(struct cl_pool *pool, struct cl_pool_context *context,
				uint64_t number, unsigned int marker, cl_event event)
{
	uint64_t note = (number << NOTE_CONTEXT_BITS |
			 (uint64_t)(context - pool->contexts)) << NOTE_MARKER_BITS | marker;

	if (context->calls.notify)
		context->calls.notify(event, CL_COMPLETE, on_marker, (void *)(uintptr_t)note);
}

/* ---- issuing ---- */

static bool fences_are_full(const struct cl_pool_context *context)
{
	return context->last_issued - context->completed == CL_POOL_FENCES;
}

static struct cl_pool_fence *fence_reserve(struct cl_pool_context *context,
					   struct queues *ret_queues, uint64_t epoch)
{
	struct cl_pool_fence *fence;

	if (context->unpoolable || !atomic_load(&context->handle) || fences_are_full(context))
		return NULL;
	context->last_issued++;
	fence = fence_by_number(context, context->last_issued);
	memset(fence, 0, sizeof(*fence));
	fence->number = context->last_issued;
	context->epoch = epoch;
	context->issuing++;
	queues_acquire(context, ret_queues);
	return fence;
}

/* Call without a lock. Returns false if one marker failed. */
static bool fence_put_markers(struct cl_pool_context *context, const struct queues *queues,
			      struct cl_pool_events *ret)
{
	ret->count = 0;
	for (unsigned int i = 0; i < queues->count; i++) {
		if (CL_POOL_CALL(&context->calls, mark, clEnqueueMarkerWithWaitList,
				 queues->handle[i], 0, NULL, &ret->events[i]) != CL_SUCCESS)
			return false;
		ret->count++;
	}
	return true;
}

/* Locking: takes CONTEXT's lock. EPOCH was read before: the fence covers all commands that were
 * enqueued then. Returns the fence's number, or 0. */
static uint64_t fence_issue(struct cl_pool_context *context, uint64_t epoch, bool notify)
{
	struct cl_pool *pool = cl_pool_current();
	struct cl_pool_fence *fence = NULL;
	struct cl_pool_events events;
	struct queues queues;
	uint64_t number;
	bool put, over;

	if (pool) {
		cl_pool_lock(context);
		fence = fence_reserve(context, &queues, epoch);
		if (fence)
			fence->notifies = notify;
		cl_pool_unlock(context);
	}
	if (!fence)
		return 0;
	number = fence->number;
	put = fence_put_markers(context, &queues, &events);
	for (unsigned int i = 0; notify && i < events.count; i++) /* may complete at once */
		marker_set_callback(pool, context, number, i, events.events[i]);
	cl_pool_lock(context);
	context->issuing--;
	fence->count = events.count;
	memcpy(fence->events, events.events, events.count * sizeof(events.events[0]));
	fence->failed = fence->failed || !put;
	/* a marker failed, for example in a device queue */
	context->unpoolable = context->unpoolable || !put;
	fence->ready = true;
	over = fence_is_complete(fence);
	cl_pool_unlock(context);
	pools_count(&context->device->record->fences, 1);
	queues_release(context, &queues);
	if (over)
		fences_complete(context);
	return put ? number : 0;
}

uint64_t cl_fence_get(struct cl_pool_context *context, bool notify)
{
	uint64_t epoch = work_epoch(), number = 0;
	bool full;

	cl_pool_lock(context);
	if (epoch == context->epoch && context->last_issued > context->failed &&
	    (!notify || context->last_issued <= context->completed ||
	     fence_by_number(context, context->last_issued)->notifies))
		number = context->last_issued;
	full = fences_are_full(context);
	cl_pool_unlock(context);
	if (number)
		pools_count(&context->device->record->shared_fences, 1);
	else if (full) /* if all sizes differ, no creation has polled */
		cl_fences_poll(context);
	return number ? number : fence_issue(context, epoch, notify);
}

uint64_t opencl_pool_finishing(void)
{
	return work_epoch();
}

/* Locking: needs CONTEXT's lock. Call if a queue of CONTEXT was empty at EPOCH. If that queue is
 * the only one and no fence is pending, has the same effect as a fence that was issued at EPOCH and
 * is complete. */
static void fences_note_idle(struct cl_pool_context *context, uint64_t epoch)
{
	if (context->queue_count != 1 || context->last_issued != context->completed)
		return;
	context->completed = ++context->last_issued;
	context->epoch = epoch;
}

/* ---- polling ---- */

/* A marker that is never flushed never completes: its queue may get no other command. */
static void queues_flush(struct cl_pool_context *context)
{
	struct queues queues;

	cl_pool_lock(context);
	queues_acquire(context, &queues);
	cl_pool_unlock(context);
	for (unsigned int i = 0; i < queues.count; i++)
		context->calls.flush(queues.handle[i]);
	queues_release(context, &queues);
}

/* Returns the oldest fence if its markers must be queried, or NULL. The fence stays in the ring
 * until fences_poll_end(). */
static struct cl_pool_fence *fences_poll_begin(struct cl_pool_context *context)
{
	struct cl_pool_fence *fence = NULL;

	cl_pool_lock(context);
	if (!context->polling && atomic_load(&context->handle))
		fence = fence_by_number(context, context->completed + 1);
	if (fence && (!fence->ready || fence_is_complete(fence)))
		fence = NULL;
	context->polling = context->polling || fence;
	cl_pool_unlock(context);
	return fence;
}

static void fences_poll_end(struct cl_pool_context *context, struct cl_pool_fence *fence,
			    uint64_t done, bool failed, bool flushed)
{
	cl_pool_lock(context);
	context->polling = false;
	fence->completed_markers |= done;
	fence->failed = fence->failed || failed;
	fence->flushed = fence->flushed || flushed;
	cl_pool_unlock(context);
	fences_complete(context);
}

/* Returns true if the oldest fence is complete. */
static bool fences_poll_one(struct cl_pool_context *context)
{
	struct cl_pool_fence *fence = fences_poll_begin(context);
	bool failed = false, queued = false;
	unsigned int waiting = 0;
	uint64_t done = 0;

	if (!fence)
		return false;
	for (unsigned int i = 0; i < fence->count; i++) {
		cl_int status = driver_event_status(context, fence->events[i]);

		failed = failed || status < 0;
		queued = queued || status == CL_QUEUED;
		if (status <= CL_COMPLETE)
			done |= (uint64_t)1 << i;
		else
			waiting++;
	}
	queued = queued && !fence->flushed;
	fences_poll_end(context, fence, done, failed, queued);
	if (queued)
		queues_flush(context);
	return waiting == 0;
}

void cl_fences_poll(struct cl_pool_context *context)
{
	for (unsigned int i = 0; i < CL_POOL_FENCES && fences_poll_one(context); i++)
		;
}

/* ---- the pool and its contexts ---- */

struct cl_pool *cl_pool_current(void)
{
	struct recorder *recorder = thread_self.busy ? NULL : recorder_now();

	return recorder ? shared_load_acquire(recorder->cl_pool) : NULL;
}

void cl_pool_lock(struct cl_pool_context *context)
{
	(void)!recorder_enter();
	lock_take(&context->lock);
}

void cl_pool_unlock(struct cl_pool_context *context)
{
	lock_give_soon(&context->lock);
	recorder_leave();
}

static struct cl_pool *cl_pool_create(void)
{
	struct recorder *recorder = recorder_enter();
	struct cl_pool *pool, *none = NULL;

	if (!recorder)
		return NULL;
	pool = arena_take(&recorder->arena, sizeof(*pool));
	if (pool) {
		pool->arena = &recorder->arena;
		if (!atomic_compare_exchange_strong_explicit(&SHARED(recorder->cl_pool), &none,
							     pool, memory_order_acq_rel,
							     memory_order_acquire)) {
			arena_give(&recorder->arena, pool, sizeof(*pool));
			pool = none;
		}
	}
	recorder_leave();
	return pool;
}

struct cl_pool_context *cl_pool_lookup_context(struct cl_pool *pool, cl_context handle)
{
	unsigned int start = (unsigned int)((uintptr_t)handle >> 6);

	for (unsigned int i = 0; handle && i < CL_POOL_CONTEXTS; i++) {
		struct cl_pool_context *context = &pool->contexts[(start + i) % CL_POOL_CONTEXTS];

		if (atomic_load_explicit(&context->handle, memory_order_acquire) == handle)
			return context;
	}
	return NULL;
}

static bool context_release_if_unused(struct cl_pool_context *context)
{
	bool over;

	lock_take(&context->lock);
	over = !context->reserved ||
	       (!atomic_load(&context->handle) && !context->objects && !context->queue_count &&
		!context->issuing && !context->polling);
	context->reserved = context->reserved && !over;
	lock_give(&context->lock);
	return over;
}

static struct cl_pool_context *context_reserve(struct cl_pool *pool, cl_context handle)
{
	unsigned int start = (unsigned int)((uintptr_t)handle >> 6);
	struct cl_pool_context *found = NULL;

	(void)!recorder_enter();
	lock_take(&pool->lock);
	for (unsigned int i = 0; i < CL_POOL_CONTEXTS && !found; i++) {
		struct cl_pool_context *context = &pool->contexts[(start + i) % CL_POOL_CONTEXTS];

		if (context_release_if_unused(context)) {
			context->reserved = true;
			found = context;
		}
	}
	lock_give(&pool->lock);
	recorder_leave();
	return found;
}

/* Fills *RET with all driver functions that the pool calls. Returns false if one is missing: a
 * driver of OpenCL 1.1 has no markers and gets no pool. */
static bool driver_find_calls(struct cl_pool_calls *ret)
{
	*ret = (struct cl_pool_calls){
		.release_mem = OPENCL_USED(clReleaseMemObject),
		.mem_info = OPENCL_USED(clGetMemObjectInfo),
		.mark = OPENCL_USED(clEnqueueMarkerWithWaitList),
		.event_info = OPENCL_USED(clGetEventInfo),
		.release_event = OPENCL_USED(clReleaseEvent),
		.notify = OPENCL_USED(clSetEventCallback),
		.flush = OPENCL_USED(clFlush),
		.release_queue = OPENCL_USED(clReleaseCommandQueue),
		.below = thread_inside.below,
	};
	return ret->release_mem && ret->mem_info && ret->mark && ret->event_info &&
	       ret->release_event && ret->flush && ret->release_queue;
}

static void context_init(struct cl_pool *pool, struct cl_pool_context *context, cl_context handle,
			 const struct cl_pool_calls *calls, int device)
{
	struct cl_pool_device *of = &pool->devices[device < 0 ? 0 : (device + 1) % CL_POOL_DEVICES];

	if (!of->record)
		of->record = pools_record_row("OpenCL", "cl-buffer", device);
	if (!of->total && config.pool_cache < 0 && config.pool_cache != OPTION_UNSET)
		of->total = opencl_total_of(device); /* the limit is a percentage */
	context->device = of;
	context->references = 1;
	context->unpoolable = false;
	context->calls = *calls;
	context->epoch = 0;
	/* The fence numbers of the previous context in this element continue, because the driver
	 * may still call back for one of its markers. */
	context->dropped = context->failed = context->completed = context->last_issued;
	if (of->record)
		atomic_store_explicit(&context->handle, handle, memory_order_release);
	else
		context->reserved = false;
}

void opencl_pool_context_made(cl_context handle)
{
	struct cl_pool_context *context;
	struct cl_pool *pool;
	struct cl_pool_calls calls;

	if (config.pool == OPTION_POOL_OFF || !handle || !driver_find_calls(&calls))
		return;
	pool = cl_pool_current();
	if (!pool && !(pool = cl_pool_create()))
		return;
	context = cl_pool_lookup_context(pool, handle);
	if (context) /* the recorder missed its end */
		atomic_store(&context->handle, NULL);
	context = context_reserve(pool, handle);
	if (context)
		context_init(pool, context, handle, &calls, opencl_device_of(handle));
	atomic_store(&opencl_pool_on, true);
}

static struct cl_pool_context *context_lookup(cl_context handle)
{
	struct cl_pool *pool = cl_pool_current();

	return pool ? cl_pool_lookup_context(pool, handle) : NULL;
}

void opencl_pool_context_retained(cl_context handle)
{
	struct cl_pool_context *context = context_lookup(handle);

	if (!context)
		return;
	cl_pool_lock(context);
	context->references++;
	cl_pool_unlock(context);
}

/* Cached buffers would keep the context alive: they are returned before the last release. */
void opencl_pool_context_releasing(cl_context handle)
{
	struct cl_pool_context *context = context_lookup(handle);
	struct cl_pool_buffer *victims = NULL;
	bool last;

	if (!context)
		return;
	cl_pool_lock(context);
	last = context->references && --context->references == 0;
	if (last) {
		victims = cl_pool_remove_all(context);
		atomic_store(&context->handle, NULL);
	}
	cl_pool_unlock(context);
	if (!last)
		return;
	cl_pool_return(context, victims);
	cl_pool_lock(context);
	for (uint64_t n = context->completed + 1; n <= context->last_issued; n++)
		fence_by_number(context, n)->failed = true; /* no buffer waits for it any more */
	cl_pool_unlock(context);
	fences_complete(context);
}

/* ---- the application's queues ---- */

void opencl_pool_queue_made(cl_context handle, cl_command_queue queue)
{
	struct cl_pool_context *context = context_lookup(handle);
	struct cl_pool_queue *stale;

	if (!context)
		return;
	cl_pool_lock(context);
	stale = queue_lookup(context, queue);
	if (stale)
		queue_remove(context, stale); /* the recorder missed its end */
	if (context->queue_count < CL_POOL_QUEUES)
		context->queues[context->queue_count++] =
			(struct cl_pool_queue){ queue, 1, 0, false };
	else
		context->unpoolable = true;
	cl_pool_unlock(context);
}

/* Returns QUEUE's context with its lock taken, or NULL without a lock. */
static struct cl_pool_context *context_lock_for_queue(cl_command_queue queue)
{
	struct cl_pool *pool = cl_pool_current();

	for (unsigned int i = 0; pool && i < CL_POOL_CONTEXTS; i++) {
		struct cl_pool_context *context = &pool->contexts[i];

		if (!shared_load(context->queue_count))
			continue;
		cl_pool_lock(context);
		if (queue_lookup(context, queue))
			return context;
		cl_pool_unlock(context);
	}
	return NULL;
}

void opencl_pool_finished(cl_command_queue queue, uint64_t epoch)
{
	struct cl_pool_context *context = context_lock_for_queue(queue);
	bool outstanding;

	if (!context)
		return;
	outstanding = context->last_issued != context->completed;
	if (!outstanding)
		fences_note_idle(context, epoch);
	cl_pool_unlock(context);
	if (!outstanding)
		return;
	cl_fences_poll(context); /* the queue is empty: its markers are complete, too */
	cl_pool_lock(context);
	fences_note_idle(context, epoch);
	cl_pool_unlock(context);
}

void opencl_pool_queue_retained(cl_command_queue queue)
{
	struct cl_pool_context *context = context_lock_for_queue(queue);

	if (!context)
		return;
	queue_lookup(context, queue)->references++;
	cl_pool_unlock(context);
}

/* The commands of a released queue still run. So a fence is issued before the release; it completes
 * before all later fences. */
static void queue_put_last_fence(struct cl_pool_context *context)
{
	struct cl_pool_buffer *victims;

	if (cl_fence_get(context, false))
		return;
	cl_pool_lock(context);
	context->unpoolable = true;
	victims = cl_pool_remove_all(context);
	cl_pool_unlock(context);
	cl_pool_return(context, victims);
}

bool opencl_pool_queue_releasing(cl_command_queue handle)
{
	struct cl_pool_context *context = context_lock_for_queue(handle);
	struct cl_pool_queue *queue;
	bool alive, in_use = false;

	if (!context)
		return false;
	queue = queue_lookup(context, handle);
	if (--queue->references) {
		cl_pool_unlock(context);
		return false;
	}
	alive = atomic_load(&context->handle) && !context->unpoolable;
	cl_pool_unlock(context);
	if (alive)
		queue_put_last_fence(context);
	cl_pool_lock(context);
	queue = queue_lookup(context, handle);
	if (queue && queue->users)
		queue->dying = in_use = true;
	else if (queue)
		queue_remove(context, queue);
	cl_pool_unlock(context);
	return in_use;
}
