/* SPDX-License-Identifier: MIT
 *
 * Streams and events. Without STANDIN_ASYNC nothing runs, so all work is done when it is
 * submitted; with it a stream leads to a queue and an event to a place in one. Stream capture has
 * rules: which call may happen beside which capture, and how that capture ends. Owns the stream
 * and event handles.
 */
#include <pthread.h>
#include <stdlib.h>

#include "async.h"

enum { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };
enum { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED }; /* CUstreamCaptureStatus */

struct CUstream_st {
	struct CUstream_st *next;
	CUcontext context;
	int status, mode;
	CUgraph graph; /* captured into */
	bool given;    /* by the application: not the capture's to destroy */
	cuuint64_t id;
	struct standin_thread *thread; /* that began the capture: compared, never followed */
	bool non_blocking;
	struct queue *queue;	/* from the first work on */
	struct CUstream_st *of; /* whose capture it has joined */
};

/* Was recorded in a queue, or into the capture with the number, or not at all. */
struct CUevent_st {
	struct CUevent_st *next;
	struct after when;
	cuuint64_t captured;
};

_Atomic int standin_captures;

static pthread_mutex_t stream_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUstream_st *streams;
static struct CUevent_st *events;

/* NULL, legacy and per-thread default stream are always there. */
static bool is_default(CUstream stream)
{
	return (uintptr_t)stream <= 2;
}

static struct CUstream_st **find_stream(CUstream stream)
{
	struct CUstream_st **link = &streams;

	while (*link && *link != stream)
		link = &(*link)->next;
	return link;
}

CUresult stream_check(CUstream stream, bool *capturing)
{
	struct CUstream_st *s;

	if (is_default(stream))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&stream_lock);
	s = *find_stream(stream);
	if (s)
		*capturing = s->status != CAPTURE_NONE;
	pthread_mutex_unlock(&stream_lock);
	return s ? CUDA_SUCCESS : ERROR_INVALID_HANDLE;
}

/* Those that have joined a capture leave with it. */
static void release_joined(const struct CUstream_st *of)
{
	for (struct CUstream_st *s = streams; s; s = s->next)
		if (s->of == of) {
			s->of = NULL;
			s->status = CAPTURE_NONE;
			s->graph = NULL;
			atomic_fetch_sub(&standin_captures, 1);
		}
}

static void remove_stream(struct CUstream_st **link)
{
	struct CUstream_st *s = *link;

	if (s->status != CAPTURE_NONE) {
		atomic_fetch_sub(&standin_captures, 1);
		release_joined(s);
		if (!s->given && !s->of)
			graph_abandon(s->graph);
	}
	*link = s->next;
	if (s->queue)
		async_orphan(s->queue);
	free(s);
}

/* With the lock held: the work of a stream that is destroyed, or whose context is a green one
 * that is, belongs to the memory's context still. */
static struct queue *queue_of(struct CUstream_st *s)
{
	CUcontext context = s->context->part_of ? s->context->part_of : s->context;

	if (!s->queue)
		s->queue = async_queue(context, !s->non_blocking);
	return s->queue;
}

static CUresult handle_target(CUstream stream, struct target *t)
{
	struct CUstream_st *s = *find_stream(stream);

	if (!s)
		return ERROR_INVALID_HANDLE;
	if (s->status == CAPTURE_INVALIDATED)
		return ERROR_CAPTURE_INVALIDATED;
	if (s->status == CAPTURE_ACTIVE) {
		t->graph = s->graph;
		return CUDA_SUCCESS;
	}
	t->queue = queue_of(s);
	return t->queue ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Where the calling thread's work for a default stream goes: 2 is its own one. */
static bool is_per_thread(CUstream stream, bool per_thread)
{
	return (uintptr_t)stream == 2 || (!stream && per_thread);
}

static struct queue *default_queue(CUstream stream, bool per_thread)
{
	return async_default_queue(memory_context(), is_per_thread(stream, per_thread));
}

CUresult stream_target(CUstream stream, bool per_thread, struct target *t)
{
	CUresult r = context_usable(standin_thread.current);

	*t = (struct target){ .queue = NULL };
	if (!r && is_default(stream)) {
		if (!is_per_thread(stream, per_thread))
			r = capture_check();
		if (!r)
			t->queue = default_queue(stream, per_thread);
		return r || t->queue ? r : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!r) {
		pthread_mutex_lock(&stream_lock);
		r = handle_target(stream, t);
		pthread_mutex_unlock(&stream_lock);
	}
	return r;
}

void stream_drop_context(CUcontext context)
{
	struct CUstream_st **link = &streams;

	pthread_mutex_lock(&stream_lock);
	while (*link) {
		if ((*link)->context == context)
			remove_stream(link);
		else
			link = &(*link)->next;
	}
	pthread_mutex_unlock(&stream_lock);
}

/* cuda.h, at cuThreadExchangeStreamCaptureMode: whom an unsafe call disturbs. */
static bool disturbs(const struct CUstream_st *s)
{
	bool own = s->thread == &standin_thread;

	if (s->mode == CAPTURE_RELAXED || standin_thread.capture_mode == CAPTURE_RELAXED)
		return false;
	if (own)
		return true;
	return s->mode == CAPTURE_GLOBAL && standin_thread.capture_mode == CAPTURE_GLOBAL;
}

CUresult capture_check_slow(bool even_relaxed)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&stream_lock);
	for (struct CUstream_st *s = streams; s; s = s->next)
		if (s->status != CAPTURE_NONE && (even_relaxed || disturbs(s))) {
			s->status = CAPTURE_INVALIDATED;
			r = ERROR_CAPTURE_UNSUPPORTED;
		}
	pthread_mutex_unlock(&stream_lock);
	return r;
}

static CUresult enter(const char *name)
{
	CUresult r = gate(name);

	return r ? r : context_usable(standin_thread.current);
}

static CUresult stream_create(const char *name, CUstream *out, unsigned int flags)
{
	CUresult r = enter(name);
	struct CUstream_st *s;

	if (r)
		return r;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	s = calloc(1, sizeof(*s));
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->context = standin_thread.current;
	s->non_blocking = flags & 1;
	pthread_mutex_lock(&stream_lock);
	s->next = streams;
	streams = s;
	pthread_mutex_unlock(&stream_lock);
	*out = s;
	return CUDA_SUCCESS;
}

STANDIN(cuStreamCreate)(CUstream *phStream, unsigned int Flags)
{
	return stream_create("cuStreamCreate", phStream, Flags);
}

STANDIN(cuStreamCreateWithPriority)(CUstream *phStream, unsigned int flags, int priority)
{
	(void)priority;
	return stream_create("cuStreamCreateWithPriority", phStream, flags);
}

static CUresult stream_destroy(const char *name, CUstream stream)
{
	struct CUstream_st **link;
	CUresult r = gate(name);

	if (r)
		return r;
	pthread_mutex_lock(&stream_lock);
	link = find_stream(stream);
	if (*link && stream)
		remove_stream(link);
	else
		r = ERROR_INVALID_HANDLE;
	pthread_mutex_unlock(&stream_lock);
	return r;
}

STANDIN(cuStreamDestroy)(CUstream hStream)
{
	return stream_destroy("cuStreamDestroy", hStream);
}

STANDIN(cuStreamDestroy_v2)(CUstream hStream)
{
	return stream_destroy("cuStreamDestroy_v2", hStream);
}

/* Waiting for a stream that captures ends the capture, whatever its mode. */
static CUresult wait_check(const char *name, CUstream stream, bool per_thread,
			   struct queue **queue)
{
	struct CUstream_st *s;
	CUresult r = enter(name);

	*queue = NULL;
	if (r)
		return r;
	if (is_default(stream)) {
		r = capture_check();
		if (unlikely(standin_async) && !r)
			*queue = default_queue(stream, per_thread);
		return r;
	}
	pthread_mutex_lock(&stream_lock);
	s = *find_stream(stream);
	if (!s) {
		r = ERROR_INVALID_HANDLE;
	} else if (s->status != CAPTURE_NONE) {
		s->status = CAPTURE_INVALIDATED;
		r = ERROR_CAPTURE_UNSUPPORTED;
	} else {
		*queue = s->queue;
	}
	pthread_mutex_unlock(&stream_lock);
	return r;
}

static CUresult stream_wait(const char *name, CUstream stream, bool per_thread)
{
	struct queue *queue;
	CUresult r = wait_check(name, stream, per_thread, &queue);

	if (!r && queue)
		r = async_wait_queue(name, queue);
	return waited(r);
}

static CUresult stream_query(const char *name, CUstream stream, bool per_thread)
{
	struct queue *queue;
	CUresult r = wait_check(name, stream, per_thread, &queue);

	return !r && queue && !async_idle(queue) ? ERROR_NOT_READY : r;
}

STANDIN(cuStreamSynchronize)(CUstream hStream)
{
	return stream_wait("cuStreamSynchronize", hStream, false);
}

STANDIN(cuStreamSynchronize_ptsz)(CUstream hStream)
{
	return stream_wait("cuStreamSynchronize_ptsz", hStream, true);
}

STANDIN(cuStreamQuery)(CUstream hStream)
{
	return stream_query("cuStreamQuery", hStream, false);
}

STANDIN(cuStreamQuery_ptsz)(CUstream hStream)
{
	return stream_query("cuStreamQuery_ptsz", hStream, true);
}

static CUresult begin_locked(struct CUstream_st *s, int mode, CUgraph graph)
{
	static cuuint64_t captures;

	if (!s)
		return ERROR_INVALID_HANDLE;
	if (s->status != CAPTURE_NONE)
		return ERROR_ILLEGAL_STATE;
	s->graph = graph ? graph : graph_begin();
	if (!s->graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->given = graph;
	s->id = ++captures;
	s->status = CAPTURE_ACTIVE;
	s->mode = mode;
	s->thread = &standin_thread;
	atomic_fetch_add(&standin_captures, 1);
	return CUDA_SUCCESS;
}

/* GRAPH: NULL makes a new one. */
static CUresult begin_capture(const char *name, CUstream stream, int mode, CUgraph graph)
{
	CUresult r = enter(name);

	if (r)
		return r;
	if (mode < CAPTURE_GLOBAL || mode > CAPTURE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_default(stream))
		return ERROR_CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&stream_lock);
	r = begin_locked(*find_stream(stream), mode, graph);
	pthread_mutex_unlock(&stream_lock);
	return r;
}

STANDIN(cuStreamBeginCapture)(CUstream hStream)
{
	return begin_capture("cuStreamBeginCapture", hStream, CAPTURE_GLOBAL, NULL);
}

STANDIN(cuStreamBeginCapture_ptsz)(CUstream hStream)
{
	return begin_capture("cuStreamBeginCapture_ptsz", hStream, CAPTURE_GLOBAL, NULL);
}

STANDIN(cuStreamBeginCapture_v2)(CUstream hStream, int mode)
{
	return begin_capture("cuStreamBeginCapture_v2", hStream, mode, NULL);
}

STANDIN(cuStreamBeginCapture_v2_ptsz)(CUstream hStream, int mode)
{
	return begin_capture("cuStreamBeginCapture_v2_ptsz", hStream, mode, NULL);
}

static CUresult begin_into(const char *name, CUstream stream, CUgraph graph, int mode)
{
	CUresult r = enter(name);

	if (r)
		return r;
	return graph_is(graph) ? begin_capture(name, stream, mode, graph)
			       : CUDA_ERROR_INVALID_VALUE;
}

STANDIN(cuStreamBeginCaptureToGraph)
(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
 const CUgraphEdgeData *dependencyData, size_t numDependencies, int mode)
{
	(void)dependencies;
	(void)dependencyData;
	(void)numDependencies;
	return begin_into("cuStreamBeginCaptureToGraph", hStream, hGraph, mode);
}

STANDIN(cuStreamBeginCaptureToGraph_ptsz)
(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
 const CUgraphEdgeData *dependencyData, size_t numDependencies, int mode)
{
	(void)dependencies;
	(void)dependencyData;
	(void)numDependencies;
	return begin_into("cuStreamBeginCaptureToGraph_ptsz", hStream, hGraph, mode);
}

static CUresult end_locked(struct CUstream_st *s, CUgraph *graph)
{
	bool intact;

	if (!s)
		return ERROR_INVALID_HANDLE;
	if (s->status == CAPTURE_NONE)
		return ERROR_ILLEGAL_STATE;
	if (s->of)
		return ERROR_CAPTURE_UNMATCHED;
	if (s->mode != CAPTURE_RELAXED && s->thread != &standin_thread)
		return ERROR_CAPTURE_WRONG_THREAD;
	intact = s->status == CAPTURE_ACTIVE;
	for (struct CUstream_st *other = streams; other; other = other->next)
		if (other->of == s && other->status == CAPTURE_INVALIDATED)
			intact = false;
	release_joined(s);
	s->status = CAPTURE_NONE;
	atomic_fetch_sub(&standin_captures, 1);
	*graph = intact ? s->graph : NULL;
	if (!intact && !s->given)
		graph_abandon(s->graph);
	s->graph = NULL;
	return intact ? CUDA_SUCCESS : ERROR_CAPTURE_INVALIDATED;
}

static CUresult end_capture(const char *name, CUstream stream, CUgraph *graph)
{
	CUresult r = enter(name);

	if (r)
		return r;
	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_default(stream))
		return ERROR_ILLEGAL_STATE;
	pthread_mutex_lock(&stream_lock);
	r = end_locked(*find_stream(stream), graph);
	pthread_mutex_unlock(&stream_lock);
	return r;
}

STANDIN(cuStreamEndCapture)(CUstream hStream, CUgraph *phGraph)
{
	return end_capture("cuStreamEndCapture", hStream, phGraph);
}

STANDIN(cuStreamEndCapture_ptsz)(CUstream hStream, CUgraph *phGraph)
{
	return end_capture("cuStreamEndCapture_ptsz", hStream, phGraph);
}

static CUresult is_capturing(const char *name, CUstream stream, int *status)
{
	struct CUstream_st *s;
	CUresult r = enter(name);

	if (r)
		return r;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	*status = CAPTURE_NONE;
	if (is_default(stream))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&stream_lock);
	s = *find_stream(stream);
	if (s)
		*status = s->status;
	pthread_mutex_unlock(&stream_lock);
	return s ? CUDA_SUCCESS : ERROR_INVALID_HANDLE;
}

STANDIN(cuStreamIsCapturing)(CUstream hStream, int *captureStatus)
{
	return is_capturing("cuStreamIsCapturing", hStream, captureStatus);
}

STANDIN(cuStreamIsCapturing_ptsz)(CUstream hStream, int *captureStatus)
{
	return is_capturing("cuStreamIsCapturing_ptsz", hStream, captureStatus);
}

/* The graph of a capture that is intact, or NULL. */
CUgraph stream_graph(CUstream stream)
{
	CUgraph graph = NULL;
	struct CUstream_st *s;

	pthread_mutex_lock(&stream_lock);
	s = is_default(stream) ? NULL : *find_stream(stream);
	if (s && s->status == CAPTURE_ACTIVE)
		graph = s->graph;
	pthread_mutex_unlock(&stream_lock);
	return graph;
}

/* No node is known to be the last: there are no dependencies to tell. */
static CUresult capture_info(const char *name, CUstream stream, int *status, cuuint64_t *id,
			     CUgraph *graph, const CUgraphNode **dependencies, size_t *count)
{
	CUresult r = is_capturing(name, stream, status);

	if (r || *status != CAPTURE_ACTIVE)
		return r;
	if (id) {
		pthread_mutex_lock(&stream_lock);
		*id = (*find_stream(stream))->id;
		pthread_mutex_unlock(&stream_lock);
	}
	if (graph)
		*graph = stream_graph(stream);
	if (dependencies)
		*dependencies = NULL;
	if (count)
		*count = 0;
	return CUDA_SUCCESS;
}

#define CAPTURE_INFO(name)                                                                   \
	(CUstream hStream, int *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,  \
	 const CUgraphNode **dependencies_out, size_t *numDependencies_out)                 \
	{                                                                                   \
		return capture_info(name, hStream, captureStatus_out, id_out, graph_out,    \
				    dependencies_out, numDependencies_out);                 \
	}
#define CAPTURE_INFO_EDGES(name)                                                             \
	(CUstream hStream, int *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out,  \
	 const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out,        \
	 size_t *numDependencies_out)                                                       \
	{                                                                                   \
		if (edgeData_out)                                                           \
			*edgeData_out = NULL;                                               \
		return capture_info(name, hStream, captureStatus_out, id_out, graph_out,    \
				    dependencies_out, numDependencies_out);                 \
	}
STANDIN(cuStreamGetCaptureInfo_v2) CAPTURE_INFO("cuStreamGetCaptureInfo_v2")
STANDIN(cuStreamGetCaptureInfo_v2_ptsz) CAPTURE_INFO("cuStreamGetCaptureInfo_v2_ptsz")
STANDIN(cuStreamGetCaptureInfo_v3) CAPTURE_INFO_EDGES("cuStreamGetCaptureInfo_v3")
STANDIN(cuStreamGetCaptureInfo_v3_ptsz) CAPTURE_INFO_EDGES("cuStreamGetCaptureInfo_v3_ptsz")

STANDIN(cuThreadExchangeStreamCaptureMode)(int *mode)
{
	CUresult r = gate("cuThreadExchangeStreamCaptureMode");
	int now;

	if (r)
		return r;
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	now = *mode;
	*mode = standin_thread.capture_mode;
	standin_thread.capture_mode = now;
	return CUDA_SUCCESS;
}

static struct CUevent_st **find_event(CUevent event)
{
	struct CUevent_st **link = &events;

	while (*link && *link != event)
		link = &(*link)->next;
	return link;
}

static CUresult event_check(const char *name, CUevent event)
{
	CUresult r = enter(name);

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
	CUresult r = enter("cuEventCreate");
	struct CUevent_st *e;

	(void)Flags;
	if (r)
		return r;
	if (!phEvent)
		return CUDA_ERROR_INVALID_VALUE;
	e = calloc(1, sizeof(*e));
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
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

/* With the lock held. */
static CUresult record_locked(const char *name, CUevent event, struct queue *queue,
			      const struct CUstream_st *captured)
{
	struct work mark = { .name = name, .kind = WORK_MARK };

	if (!*find_event(event))
		return ERROR_INVALID_HANDLE;
	event->captured = captured ? captured->id : 0;
	event->when = (struct after){ NULL, 0 };
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
	CUresult r = event_check(name, event);

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

/* Where it was recorded; what is in a capture never happens itself. */
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

/* With the lock held: the stream becomes a part of the capture that the event was recorded in. */
static CUresult join_capture(CUstream stream, CUevent event)
{
	struct CUstream_st *s = *find_stream(stream), *of = streams;

	while (of && !(of->status != CAPTURE_NONE && of->id == event->captured))
		of = of->next;
	if (!s || !of)
		return s ? ERROR_CAPTURED_EVENT : ERROR_INVALID_HANDLE;
	if (s->status != CAPTURE_NONE)
		return s->id == of->id ? CUDA_SUCCESS : ERROR_CAPTURE_ISOLATION;
	s->of = of->of ? of->of : of;
	s->status = of->status;
	s->mode = of->mode;
	s->graph = of->graph;
	s->id = of->id;
	s->thread = of->thread;
	s->given = of->given;
	atomic_fetch_add(&standin_captures, 1);
	return CUDA_SUCCESS;
}

static CUresult wait_event_locked(const char *name, CUstream stream, CUevent event,
				  const struct target *t)
{
	struct work mark = { .name = name, .kind = WORK_MARK, .at_once = true };

	if (!*find_event(event))
		return ERROR_INVALID_HANDLE;
	if (event->captured)
		return is_default(stream) ? ERROR_CAPTURE_ISOLATION : join_capture(stream, event);
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
	CUresult r = event_check(name, event);

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

static CUresult record_context(CUcontext context, CUevent event)
{
	CUresult r;

	pthread_mutex_lock(&stream_lock);
	r = *find_event(event) ? CUDA_SUCCESS : ERROR_INVALID_HANDLE;
	if (!r)
		r = async_record_context(context->part_of ? context->part_of : context,
					 "cuCtxRecordEvent", &event->when);
	if (!r)
		event->captured = 0;
	pthread_mutex_unlock(&stream_lock);
	return r;
}

/* New in CUDA 12.5: an older driver has no such name, which a library cannot do by half. */
STANDIN(cuCtxRecordEvent)(CUcontext hCtx, CUevent hEvent)
{
	CUresult r = event_check("cuCtxRecordEvent", hEvent);

	if (unlikely(standin_version < 12050))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!r && hCtx)
		r = context_usable(hCtx);
	if (!r && atomic_load(&standin_captures))
		r = capture_check_slow(true);
	if (unlikely(standin_async) && !r)
		r = record_context(hCtx ? hCtx : standin_thread.current, hEvent);
	return r;
}
