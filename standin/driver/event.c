/* SPDX-License-Identifier: MIT
 *
 * Events. With STANDIN_ASYNC an event is a place in a queue, or in a capture. Without it every
 * recorded event is complete at once. Owns the event handles, under the lock of streams.
 */
#include <stdlib.h>
#include <time.h>

#include "standin/driver/stream.h"

/* An event was recorded in a queue (`when`), or in the capture with the number `captured`, or not
 * at all. */
struct CUevent_st {
	struct CUevent_st *next;
	CUcontext context;
	struct after when;
	cuuint64_t captured;
	uint64_t recorded_ns; /* with STANDIN_FAKE_GPU; 0: not recorded */
};

static struct CUevent_st *events;

static struct CUevent_st **find_event(CUevent event)
{
	struct CUevent_st **link = &events;

	while (*link && *link != event)
		link = &(*link)->next;
	return link;
}

/* Returns an error if EVENT is no event. Queries and waits work with any current context, or none
 * (measured on an H200). */
static CUresult event_check(const char *name, CUevent event)
{
	CUresult r = gate(name);

	if (r)
		return r;
	pthread_mutex_lock(&stream_lock);
	if (!event || !*find_event(event))
		r = ERROR_INVALID_HANDLE;
	pthread_mutex_unlock(&stream_lock);
	return r;
}

STANDIN(cuEventCreate)(CUevent *phEvent, unsigned int Flags)
{
	CUresult r = standin_do_nothing("cuEventCreate");
	struct CUevent_st *e;

	(void)Flags;
	if (r)
		return r;
	if (!phEvent)
		return CUDA_ERROR_INVALID_VALUE;
	if (unlikely(standin_async))
		async_pass_frees(memory_context());
	e = calloc(1, sizeof(*e));
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->context = memory_context();
	pthread_mutex_lock(&stream_lock);
	e->next = events;
	events = e;
	pthread_mutex_unlock(&stream_lock);
	*phEvent = e;
	return CUDA_SUCCESS;
}

static CUresult event_destroy(const char *name, CUevent event)
{
	CUresult r = gate(name);
	struct CUevent_st **link;

	if (r)
		return r;
	pthread_mutex_lock(&stream_lock);
	link = find_event(event);
	if (event && *link) {
		*link = event->next;
		free(event);
	} else {
		r = ERROR_INVALID_HANDLE;
	}
	pthread_mutex_unlock(&stream_lock);
	return r;
}

STANDIN(cuEventDestroy)(CUevent hEvent)
{
	return event_destroy("cuEventDestroy", hEvent);
}

STANDIN(cuEventDestroy_v2)(CUevent hEvent)
{
	return event_destroy("cuEventDestroy_v2", hEvent);
}

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Locking: needs stream_lock. */
static CUresult record_locked(const char *name, CUevent event, struct queue *queue,
			      const struct CUstream_st *captured)
{
	struct work mark = { .name = name, .kind = WORK_MARK };

	if (!*find_event(event))
		return ERROR_INVALID_HANDLE;
	event->captured = captured ? captured->id : 0;
	event->when = (struct after){ NULL, 0 };
	if (standin_fake)
		event->recorded_ns = monotonic_ns();
	return captured ? CUDA_SUCCESS : async_submit(queue, &mark, NULL, &event->when);
}

static CUresult record_async(const char *name, CUevent event, CUstream stream, bool per_thread)
{
	struct target t;
	CUresult r = stream_target(stream, per_thread, &t);

	if (r)
		return r;
	pthread_mutex_lock(&stream_lock);
	r = record_locked(name, event, t.queue, t.graph ? stream : NULL);
	pthread_mutex_unlock(&stream_lock);
	return r;
}

static CUresult event_record(const char *name, CUevent event, CUstream stream, bool per_thread)
{
	bool capturing;
	CUresult r = standin_do_nothing(name);

	if (!r)
		r = event_check(name, event);
	if (!r)
		r = stream_check(stream, &capturing);
	return unlikely(standin_async) && !r ? record_async(name, event, stream, per_thread) : r;
}

STANDIN(cuEventRecord)(CUevent hEvent, CUstream hStream)
{
	return event_record("cuEventRecord", hEvent, hStream, false);
}

STANDIN(cuEventRecord_ptsz)(CUevent hEvent, CUstream hStream)
{
	return event_record("cuEventRecord_ptsz", hEvent, hStream, true);
}

/* Stores in *WHEN the place where EVENT was recorded. An event of a capture never completes by
 * itself. */
static CUresult event_when(const char *name, CUevent event, struct after *when)
{
	CUresult r = event_check(name, event);

	*when = (struct after){ NULL, 0 };
	if (!r)
		r = capture_check();
	if (r || likely(!standin_async))
		return r;
	pthread_mutex_lock(&stream_lock);
	if (!*find_event(event))
		r = ERROR_INVALID_HANDLE;
	else if (event->captured)
		r = ERROR_CAPTURED_EVENT;
	else
		*when = event->when;
	pthread_mutex_unlock(&stream_lock);
	return r;
}

STANDIN(cuEventQuery)(CUevent hEvent)
{
	struct after when;
	CUresult r = event_when("cuEventQuery", hEvent, &when);

	return !r && when.queue && !async_done(when) ? ERROR_NOT_READY : r;
}

STANDIN(cuEventSynchronize)(CUevent hEvent)
{
	struct after when;
	CUresult r = event_when("cuEventSynchronize", hEvent, &when);

	if (!r && when.queue)
		async_wait("cuEventSynchronize", when);
	return waited(r);
}

static CUresult wait_event_locked(const char *name, CUstream stream, CUevent event,
				  const struct target *t)
{
	struct work mark = { .name = name, .kind = WORK_MARK, .at_once = true };

	if (!*find_event(event))
		return ERROR_INVALID_HANDLE;
	if (event->captured)
		return is_default(stream) ? ERROR_CAPTURE_ISOLATION :
					    join_capture(stream, event->captured);
	if (t->graph) {
		stream->status = CAPTURE_INVALIDATED;
		return ERROR_CAPTURE_ISOLATION;
	}
	return event->when.queue ? async_submit(t->queue, &mark, &event->when, NULL) :
				   CUDA_SUCCESS;
}

static CUresult wait_event(const char *name, CUstream stream, CUevent event, bool per_thread)
{
	struct target t;
	CUresult r = standin_do_nothing(name);

	if (!r)
		r = event_check(name, event);
	if (!r)
		r = stream_target(stream, per_thread, &t);
	if (r)
		return r;
	pthread_mutex_lock(&stream_lock);
	r = wait_event_locked(name, stream, event, &t);
	pthread_mutex_unlock(&stream_lock);
	return r;
}

STANDIN(cuStreamWaitEvent)(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	(void)Flags;
	return unlikely(standin_async) ? wait_event("cuStreamWaitEvent", hStream, hEvent, false) :
					 standin_do_nothing("cuStreamWaitEvent");
}

STANDIN(cuStreamWaitEvent_ptsz)(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	(void)Flags;
	return unlikely(standin_async) ?
		       wait_event("cuStreamWaitEvent_ptsz", hStream, hEvent, true) :
		       standin_do_nothing("cuStreamWaitEvent_ptsz");
}

static CUresult elapsed(const char *name, float *milliseconds, CUevent start, CUevent end)
{
	CUresult r = event_check(name, start);

	if (!r)
		r = event_check(name, end);
	if (r)
		return r;
	if (!milliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	*milliseconds = 0;
	if (!standin_fake)
		return CUDA_SUCCESS;
	if (!start->recorded_ns || !end->recorded_ns)
		return ERROR_INVALID_HANDLE;
	*milliseconds = (float)(int64_t)(end->recorded_ns - start->recorded_ns) / 1e6f;
	return CUDA_SUCCESS;
}

STANDIN(cuEventElapsedTime)(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return elapsed("cuEventElapsedTime", pMilliseconds, hStart, hEnd);
}

STANDIN(cuEventElapsedTime_v2)(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return elapsed("cuEventElapsedTime_v2", pMilliseconds, hStart, hEnd);
}

/* Locking: needs stream_lock. */
static CUresult record_context(CUcontext context, CUevent event)
{
	CUresult r = CUDA_SUCCESS;

	if (!event || !*find_event(event) || event->context != whole_context(context))
		return ERROR_INVALID_HANDLE;
	if (unlikely(standin_async))
		r = async_record_context(event->context, "cuCtxRecordEvent", &event->when);
	if (!r)
		event->captured = 0;
	return r;
}

/* New in CUDA 12.5. An older driver does not export this name. This library always exports it, so
 * it returns 801 if STANDIN_VERSION is older. */
STANDIN(cuCtxRecordEvent)(CUcontext hCtx, CUevent hEvent)
{
	CUcontext context = hCtx ? hCtx : standin_thread.current;
	CUresult r = gate("cuCtxRecordEvent");

	if (unlikely(standin_version < 12050))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!r)
		r = context_usable(context);
	if (!r)
		r = capture_check_context(context);
	if (unlikely(standin_async) && !r)
		async_pass_frees(whole_context(context));
	if (r)
		return r;
	pthread_mutex_lock(&stream_lock);
	r = record_context(context, hEvent);
	pthread_mutex_unlock(&stream_lock);
	return r;
}
