/* SPDX-License-Identifier: MIT
 *
 * When is a released buffer clean? When a marker that was put into every queue of its context
 * after the release is complete. Owns contexts, their queues and those markers. Queues of the
 * application get nothing else from us, and are flushed only for a marker of ours.
 *
 * A single queue in order is no exception: what was released there could be handed out at
 * once only if the next owner's commands all came by that queue, and nobody knows that before
 * the application has made its last queue.
 */
#include <string.h>

#include "interpose/base/config.h"
#include "interpose/opencl/pool/opencl_pool_internal.h"
#include "interpose/block/pool_counters.h"
#include "interpose/recorder/recorder.h"

_Atomic bool opencl_pool_on READ_BY_ALL;
_Atomic bool opencl_pool_work;

/* ---- the driver ---- */

static struct route route_to(const struct kept_context *context, void *real)
{
	return (struct route){ real, true, context->calls.below };
}

static cl_int put_marker(const struct kept_context *context, cl_command_queue queue,
			 cl_event *ret)
{
	const struct route route = route_to(context, context->calls.mark);
	INSIDE(&hooks[HOOK_clEnqueueMarkerWithWaitList], route);

	return ((cl_int(*)(cl_command_queue, cl_uint, const cl_event *, cl_event *))route.real)(
		queue, 0, NULL, ret);
}

static void release_event(const struct kept_context *context, cl_event event)
{
	const struct route route = route_to(context, context->calls.release_event);
	INSIDE(&hooks[HOOK_clReleaseEvent], route);

	((cl_int(*)(cl_event))route.real)(event);
}

static void release_queue(const struct kept_context *context, cl_command_queue queue)
{
	const struct route route = route_to(context, context->calls.release_queue);
	INSIDE(&hooks[HOOK_clReleaseCommandQueue], route);

	((cl_int(*)(cl_command_queue))route.real)(queue);
}

/* CL_QUEUED ... CL_COMPLETE, or an error. */
static cl_int status_of(const struct kept_context *context, cl_event event)
{
	cl_int status = CL_QUEUED, r;

	r = ((cl_int(*)(cl_event, cl_event_info, size_t, void *, size_t *))
		     context->calls.event_info)(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
						sizeof(status), &status, NULL);
	return r == CL_SUCCESS ? status : r;
}

void kept_release_events(const struct kept_context *context, const struct kept_events *events)
{
	for (unsigned int i = 0; i < events->count; i++)
		if (events->events[i])
			release_event(context, events->events[i]);
}

/* ---- has anything been put into queues? ---- */

/* Two equal answers: nothing was between them. */
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
	cl_command_queue handle[KEPT_QUEUES];
};

/* With the lock: CONTEXT's queues, none of which goes until queues_give(). */
static void queues_take(struct kept_context *context, struct queues *ret)
{
	ret->count = context->queue_count;
	for (unsigned int i = 0; i < ret->count; i++) {
		ret->handle[i] = context->queues[i].handle;
		context->queues[i].users++;
	}
}

static struct kept_queue *queue_of(struct kept_context *context, cl_command_queue handle)
{
	for (unsigned int i = 0; i < context->queue_count; i++)
		if (context->queues[i].handle == handle)
			return &context->queues[i];
	return NULL;
}

static void queue_forget(struct kept_context *context, struct kept_queue *queue)
{
	*queue = context->queues[--context->queue_count];
}

static void queues_give(struct kept_context *context, const struct queues *queues)
{
	struct queues dead = { 0 };

	kept_lock(context);
	for (unsigned int i = 0; i < queues->count; i++) {
		struct kept_queue *queue = queue_of(context, queues->handle[i]);

		if (!queue || --queue->users || !queue->dying)
			continue;
		dead.handle[dead.count++] = queue->handle;
		queue_forget(context, queue);
	}
	kept_unlock(context);
	for (unsigned int i = 0; i < dead.count; i++)
		release_queue(context, dead.handle[i]);
}

/* ---- tickets: with the lock unless said otherwise ---- */

static struct kept_ticket *ticket_of(struct kept_context *context, uint64_t number)
{
	struct kept_ticket *ticket = &context->ring[number % KEPT_TICKETS];

	return number > context->done && number <= context->issued ? ticket : NULL;
}

void ticket_bytes(struct kept_context *context, uint64_t number, int64_t bytes)
{
	struct kept_ticket *ticket = ticket_of(context, number);

	if (!ticket)
		return;
	ticket->bytes += (uint64_t)bytes;
	atomic_fetch_add_explicit(&context->device->pending, bytes, memory_order_relaxed);
}

static bool is_done(const struct kept_ticket *ticket)
{
	return ticket->ready &&
	       (ticket->failed || ticket->done == ((uint64_t)1 << ticket->count) - 1);
}
_Static_assert(KEPT_QUEUES < 64, "a bit for each marker");

/* Takes the oldest tickets out of the ring, as far as they are done and there is room for
 * their events. Returns whether there were any. */
static bool advance(struct kept_context *context, struct kept_events *ret)
{
	bool any = false;

	while (!context->polling && context->done < context->issued) {
		struct kept_ticket *ticket = ticket_of(context, context->done + 1);

		if (!is_done(ticket) || ret->count + ticket->count > 2 * KEPT_QUEUES)
			break;
		memcpy(&ret->events[ret->count], ticket->events,
		       ticket->count * sizeof(ticket->events[0]));
		ret->count += ticket->count;
		ticket_bytes(context, ticket->number, -(int64_t)ticket->bytes);
		context->done = ticket->number;
		if (ticket->failed)
			context->failed = ticket->number;
		any = true;
	}
	return any;
}

/* Without the lock. */
static void settle(struct kept_context *context)
{
	struct kept_events events;
	bool any;

	do {
		events.count = 0;
		kept_lock(context);
		any = advance(context, &events);
		kept_unlock(context);
		kept_release_events(context, &events);
		if (any)
			kept_tickets_done(context);
	} while (any);
}

/* ---- told by the driver, on whatever thread ---- */

/* What a callback is given: which marker of which ticket. Numbers are never used twice in
 * one place. */
#define NOTE_MARKER_BITS 5
#define NOTE_CONTEXT_BITS 6
_Static_assert(KEPT_QUEUES == 1 << NOTE_MARKER_BITS, "markers fit their bits");
_Static_assert(KEPT_CONTEXTS == 1 << NOTE_CONTEXT_BITS, "contexts fit their bits");

static void CL_CALLBACK on_marker(cl_event event, cl_int status, void *note)
{
	struct opencl_kept *pool = kept_pool();
	uint64_t word = (uint64_t)(uintptr_t)note;
	struct kept_context *context;
	struct kept_ticket *ticket;
	unsigned int marker = word % KEPT_QUEUES;

	(void)event;
	if (!pool)
		return;
	word >>= NOTE_MARKER_BITS;
	context = &pool->contexts[word % KEPT_CONTEXTS];
	kept_lock(context);
	ticket = ticket_of(context, word >> NOTE_CONTEXT_BITS);
	if (ticket) {
		ticket->done |= (uint64_t)1 << marker;
		ticket->failed = ticket->failed || status < 0;
	}
	kept_unlock(context);
	settle(context);
	ticket_poll(context); /* one before it, of which the driver says nothing, may hold it up */
}

static void ask_to_tell(struct opencl_kept *pool, struct kept_context *context, uint64_t number,
			unsigned int marker, cl_event event)
{
	uint64_t note = (number << NOTE_CONTEXT_BITS |
			 (uint64_t)(context - pool->contexts)) << NOTE_MARKER_BITS | marker;

	if (context->calls.notify)
		((cl_int(*)(cl_event, cl_int, void(CL_CALLBACK *)(cl_event, cl_int, void *),
			    void *))context->calls.notify)(event, CL_COMPLETE, on_marker,
							   (void *)(uintptr_t)note);
}

/* ---- issuing ---- */

static bool is_full(const struct kept_context *context)
{
	return context->issued - context->done == KEPT_TICKETS;
}

static struct kept_ticket *reserve(struct kept_context *context, struct queues *ret_queues,
				   uint64_t epoch)
{
	struct kept_ticket *ticket;

	if (context->unpoolable || !atomic_load(&context->handle) || is_full(context))
		return NULL;
	context->issued++;
	ticket = ticket_of(context, context->issued);
	memset(ticket, 0, sizeof(*ticket));
	ticket->number = context->issued;
	context->epoch = epoch;
	context->issuing++;
	queues_take(context, ret_queues);
	return ticket;
}

/* Without the lock. False: one of them failed. */
static bool put_markers(struct kept_context *context, const struct queues *queues,
			struct kept_events *ret)
{
	ret->count = 0;
	for (unsigned int i = 0; i < queues->count; i++) {
		if (put_marker(context, queues->handle[i], &ret->events[i]) != CL_SUCCESS)
			return false;
		ret->count++;
	}
	return true;
}

/* Of an epoch that was read before: the ticket is behind all that was there then. */
static uint64_t issue(struct kept_context *context, uint64_t epoch, bool tell)
{
	struct opencl_kept *pool = kept_pool();
	struct kept_ticket *ticket = NULL;
	struct kept_events events;
	struct queues queues;
	uint64_t number;
	bool put, over;

	if (pool) {
		kept_lock(context);
		ticket = reserve(context, &queues, epoch);
		if (ticket)
			ticket->tells = tell;
		kept_unlock(context);
	}
	if (!ticket)
		return 0;
	number = ticket->number;
	put = put_markers(context, &queues, &events);
	for (unsigned int i = 0; tell && i < events.count; i++) /* now: it may be done at once */
		ask_to_tell(pool, context, number, i, events.events[i]);
	kept_lock(context);
	context->issuing--;
	ticket->count = events.count;
	memcpy(ticket->events, events.events, events.count * sizeof(events.events[0]));
	ticket->failed = ticket->failed || !put;
	context->unpoolable = context->unpoolable || !put; /* a device's own queue has none */
	ticket->ready = true;
	over = is_done(ticket);
	kept_unlock(context);
	pools_count(&context->device->row->tickets, 1);
	queues_give(context, &queues);
	if (over)
		settle(context);
	return put ? number : 0;
}

uint64_t ticket_get(struct kept_context *context, bool tell)
{
	uint64_t epoch = work_epoch(), number = 0;
	bool full;

	kept_lock(context);
	if (epoch == context->epoch && context->issued > context->failed &&
	    (!tell || context->issued <= context->done ||
	     ticket_of(context, context->issued)->tells))
		number = context->issued;
	full = is_full(context);
	kept_unlock(context);
	if (number)
		pools_count(&context->device->row->shared_tickets, 1);
	else if (full) /* where all sizes differ, no creation has asked */
		ticket_poll(context);
	return number ? number : issue(context, epoch, tell);
}

uint64_t opencl_pool_finishing(void)
{
	return work_epoch();
}

/* The only queue was empty: as if a ticket had been issued then, and were done. */
static void note_idle(struct kept_context *context, uint64_t epoch)
{
	if (context->queue_count != 1 || context->issued != context->done)
		return;
	context->done = ++context->issued;
	context->epoch = epoch;
}

/* ---- polling ---- */

/* A marker that nobody flushes is never done: its queue may have nothing else to do. */
static void flush(struct kept_context *context)
{
	struct queues queues;

	kept_lock(context);
	queues_take(context, &queues);
	kept_unlock(context);
	for (unsigned int i = 0; i < queues.count; i++)
		((cl_int(*)(cl_command_queue))context->calls.flush)(queues.handle[i]);
	queues_give(context, &queues);
}

/* The oldest ticket's markers; it stays in the ring until poll_end(). */
static struct kept_ticket *poll_begin(struct kept_context *context)
{
	struct kept_ticket *ticket = NULL;

	kept_lock(context);
	if (!context->polling && atomic_load(&context->handle))
		ticket = ticket_of(context, context->done + 1);
	if (ticket && (!ticket->ready || is_done(ticket)))
		ticket = NULL;
	context->polling = context->polling || ticket;
	kept_unlock(context);
	return ticket;
}

static void poll_end(struct kept_context *context, struct kept_ticket *ticket, uint64_t done,
		     bool failed, bool flushed)
{
	kept_lock(context);
	context->polling = false;
	ticket->done |= done;
	ticket->failed = ticket->failed || failed;
	ticket->flushed = ticket->flushed || flushed;
	kept_unlock(context);
	settle(context);
}

/* Whether the oldest ticket is done. */
static bool poll_one(struct kept_context *context)
{
	struct kept_ticket *ticket = poll_begin(context);
	bool failed = false, queued = false;
	unsigned int waiting = 0;
	uint64_t done = 0;

	if (!ticket)
		return false;
	for (unsigned int i = 0; i < ticket->count; i++) {
		cl_int status = status_of(context, ticket->events[i]);

		failed = failed || status < 0;
		queued = queued || status == CL_QUEUED;
		if (status <= CL_COMPLETE)
			done |= (uint64_t)1 << i;
		else
			waiting++;
	}
	queued = queued && !ticket->flushed;
	poll_end(context, ticket, done, failed, queued);
	if (queued)
		flush(context);
	return waiting == 0;
}

void ticket_poll(struct kept_context *context)
{
	for (unsigned int i = 0; i < KEPT_TICKETS && poll_one(context); i++)
		;
}

/* ---- the pool and its contexts ---- */

struct opencl_kept *kept_pool(void)
{
	struct recorder *recorder = thread_self.busy ? NULL : recorder_now();

	return recorder ? __atomic_load_n(&recorder->opencl_kept, __ATOMIC_ACQUIRE) : NULL;
}

void kept_lock(struct kept_context *context)
{
	(void)!recorder_enter();
	lock_take(&context->lock);
}

void kept_unlock(struct kept_context *context)
{
	lock_give(&context->lock);
	recorder_leave();
}

static struct opencl_kept *pool_make(void)
{
	struct recorder *recorder = recorder_enter();
	struct opencl_kept *pool, *none = NULL;

	if (!recorder)
		return NULL;
	pool = arena_take(&recorder->arena, sizeof(*pool));
	if (pool) {
		pool->arena = &recorder->arena;
		if (!__atomic_compare_exchange_n(&recorder->opencl_kept, &none, pool, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			arena_give(&recorder->arena, pool, sizeof(*pool));
			pool = none;
		}
	}
	recorder_leave();
	return pool;
}

struct kept_context *kept_find(struct opencl_kept *pool, cl_context handle)
{
	unsigned int start = (unsigned int)((uintptr_t)handle >> 6);

	for (unsigned int i = 0; handle && i < KEPT_CONTEXTS; i++) {
		struct kept_context *context = &pool->contexts[(start + i) % KEPT_CONTEXTS];

		if (atomic_load_explicit(&context->handle, memory_order_acquire) == handle)
			return context;
	}
	return NULL;
}

static bool is_over(struct kept_context *context)
{
	bool over;

	lock_take(&context->lock);
	over = !context->taken || (!atomic_load(&context->handle) && !context->objects &&
				   !context->queue_count && !context->issuing && !context->polling);
	context->taken = context->taken && !over;
	lock_give(&context->lock);
	return over;
}

static struct kept_context *take_context(struct opencl_kept *pool, cl_context handle)
{
	unsigned int start = (unsigned int)((uintptr_t)handle >> 6);
	struct kept_context *found = NULL;

	(void)!recorder_enter();
	lock_take(&pool->lock);
	for (unsigned int i = 0; i < KEPT_CONTEXTS && !found; i++) {
		struct kept_context *context = &pool->contexts[(start + i) % KEPT_CONTEXTS];

		if (is_over(context)) {
			context->taken = true;
			found = context;
		}
	}
	lock_give(&pool->lock);
	recorder_leave();
	return found;
}

/* All that the pool may have to call; a driver that has no markers (OpenCL 1.1) gets none. */
static bool find_calls(struct kept_calls *ret)
{
	*ret = (struct kept_calls){
		.release_mem = opencl_used(USED_clReleaseMemObject),
		.mem_info = opencl_used(USED_clGetMemObjectInfo),
		.mark = opencl_used(USED_clEnqueueMarkerWithWaitList),
		.event_info = opencl_used(USED_clGetEventInfo),
		.release_event = opencl_used(USED_clReleaseEvent),
		.notify = opencl_used(USED_clSetEventCallback),
		.flush = opencl_used(USED_clFlush),
		.release_queue = opencl_used(USED_clReleaseCommandQueue),
		.below = slots_inside.below,
	};
	return ret->release_mem && ret->mem_info && ret->mark && ret->event_info &&
	       ret->release_event && ret->flush && ret->release_queue;
}

static void fill(struct opencl_kept *pool, struct kept_context *context, cl_context handle,
		 const struct kept_calls *calls, int device)
{
	struct kept_device *of = &pool->devices[device < 0 ? 0 : (device + 1) % KEPT_DEVICES];

	if (!of->row)
		of->row = pools_record_row("OpenCL", "cl-buffer", device);
	if (!of->total && config.pool_cache < 0 && config.pool_cache != OPTION_UNSET)
		of->total = opencl_total_of(device); /* it is a percentage */
	context->device = of;
	context->references = 1;
	context->unpoolable = false;
	context->calls = *calls;
	context->epoch = 0;
	/* Numbers go on: a marker of the context before may be told late. */
	context->dropped = context->failed = context->done = context->issued;
	if (of->row)
		atomic_store_explicit(&context->handle, handle, memory_order_release);
	else
		context->taken = false;
}

void opencl_pool_context_made(cl_context handle)
{
	struct kept_context *context;
	struct opencl_kept *pool;
	struct kept_calls calls;

	if (config.pool == OPTION_POOL_OFF || !handle || !find_calls(&calls))
		return;
	pool = kept_pool();
	if (!pool && !(pool = pool_make()))
		return;
	context = kept_find(pool, handle);
	if (context) /* its end was not seen */
		atomic_store(&context->handle, NULL);
	context = take_context(pool, handle);
	if (context)
		fill(pool, context, handle, &calls, opencl_device_of(handle));
	atomic_store(&opencl_pool_on, true);
}

static struct kept_context *known(cl_context handle)
{
	struct opencl_kept *pool = kept_pool();

	return pool ? kept_find(pool, handle) : NULL;
}

void opencl_pool_context_retained(cl_context handle)
{
	struct kept_context *context = known(handle);

	if (!context)
		return;
	kept_lock(context);
	context->references++;
	kept_unlock(context);
}

/* Objects of ours would keep the context alive. */
void opencl_pool_context_releasing(cl_context handle)
{
	struct kept_context *context = known(handle);
	struct kept *victims = NULL;
	bool last;

	if (!context)
		return;
	kept_lock(context);
	last = context->references && --context->references == 0;
	if (last) {
		victims = kept_take_all(context);
		atomic_store(&context->handle, NULL);
	}
	kept_unlock(context);
	if (!last)
		return;
	kept_let_go(context, victims);
	kept_lock(context);
	for (uint64_t n = context->done + 1; n <= context->issued; n++)
		ticket_of(context, n)->failed = true; /* whatever becomes of it */
	kept_unlock(context);
	settle(context);
}

/* ---- queues, as the application has them ---- */

void opencl_pool_queue_made(cl_context handle, cl_command_queue queue)
{
	struct kept_context *context = known(handle);
	struct kept_queue *stale;

	if (!context)
		return;
	kept_lock(context);
	stale = queue_of(context, queue);
	if (stale)
		queue_forget(context, stale); /* its end was not seen */
	if (context->queue_count < KEPT_QUEUES)
		context->queues[context->queue_count++] = (struct kept_queue){ queue, 1, 0, false };
	else
		context->unpoolable = true;
	kept_unlock(context);
}

/* QUEUE's context, locked, or NULL. */
static struct kept_context *lock_context_of(cl_command_queue queue)
{
	struct opencl_kept *pool = kept_pool();

	for (unsigned int i = 0; pool && i < KEPT_CONTEXTS; i++) {
		struct kept_context *context = &pool->contexts[i];

		if (!__atomic_load_n(&context->queue_count, __ATOMIC_RELAXED))
			continue;
		kept_lock(context);
		if (queue_of(context, queue))
			return context;
		kept_unlock(context);
	}
	return NULL;
}

void opencl_pool_finished(cl_command_queue queue, uint64_t epoch)
{
	struct kept_context *context = lock_context_of(queue);
	bool outstanding;

	if (!context)
		return;
	outstanding = context->issued != context->done;
	if (!outstanding)
		note_idle(context, epoch);
	kept_unlock(context);
	if (!outstanding)
		return;
	ticket_poll(context); /* they were in the queue: they are done, too */
	kept_lock(context);
	note_idle(context, epoch);
	kept_unlock(context);
}

void opencl_pool_queue_retained(cl_command_queue queue)
{
	struct kept_context *context = lock_context_of(queue);

	if (!context)
		return;
	queue_of(context, queue)->references++;
	kept_unlock(context);
}

/* Its commands go on without it: so a ticket comes first, which all later ones come after. */
static void last_marker(struct kept_context *context)
{
	struct kept *victims;

	if (ticket_get(context, false))
		return;
	kept_lock(context);
	context->unpoolable = true;
	victims = kept_take_all(context);
	kept_unlock(context);
	kept_let_go(context, victims);
}

bool opencl_pool_queue_releasing(cl_command_queue handle)
{
	struct kept_context *context = lock_context_of(handle);
	struct kept_queue *queue;
	bool alive, in_use = false;

	if (!context)
		return false;
	queue = queue_of(context, handle);
	if (--queue->references) {
		kept_unlock(context);
		return false;
	}
	alive = atomic_load(&context->handle) && !context->unpoolable;
	kept_unlock(context);
	if (alive)
		last_marker(context);
	kept_lock(context);
	queue = queue_of(context, handle);
	if (queue && queue->users)
		queue->dying = in_use = true;
	else if (queue)
		queue_forget(context, queue);
	kept_unlock(context);
	return in_use;
}
