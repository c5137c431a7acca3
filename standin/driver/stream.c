/* SPDX-License-Identifier: MIT
 *
 * Streams. Without STANDIN_ASYNC nothing runs, so all work is done when it is submitted; with it
 * each stream has a queue. Has the rules of stream capture: which calls are permitted during which
 * capture, and how a capture ends. Owns the stream handles; event.c has the events.
 */
#include <stdlib.h>

#include "standin/driver/stream.h"

_Atomic int standin_captures;

pthread_mutex_t stream_lock = PTHREAD_MUTEX_INITIALIZER;

static struct CUstream_st *streams;

struct CUstream_st **find_stream(CUstream stream)
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

/* Ends the capture of all streams that joined the capture of stream OF. */
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

/* Locking: needs stream_lock. Returns the queue of S. Its context is the one that owns the memory,
 * so its work goes on if the stream or its green context is destroyed. */
static struct queue *queue_of(struct CUstream_st *s)
{
	if (!s->queue)
		s->queue = async_queue(whole_context(s->context), !s->non_blocking);
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

/* Returns true if STREAM, a default stream, is the calling thread's own: handle 2, or NULL in a
 * per-thread call. */
static bool is_per_thread(CUstream stream, bool per_thread)
{
	return (uintptr_t)stream == 2 || (!stream && per_thread);
}

static struct queue *default_queue(CUstream stream, bool per_thread)
{
	return async_default_queue(memory_context(), is_per_thread(stream, per_thread));
}

/* Returns an error if a blocking stream of the context is captured, because the legacy stream would
 * have to wait for it. Invalidates that capture. */
static CUresult legacy_check(void)
{
	CUresult r = CUDA_SUCCESS;

	if (likely(!atomic_load(&standin_captures)))
		return r;
	pthread_mutex_lock(&stream_lock);
	for (struct CUstream_st *s = streams; s; s = s->next)
		if (s->status != CAPTURE_NONE && !s->non_blocking &&
		    whole_context(s->context) == memory_context()) {
			s->status = CAPTURE_INVALIDATED;
			r = ERROR_CAPTURE_IMPLICIT;
		}
	pthread_mutex_unlock(&stream_lock);
	return r;
}

CUresult stream_target(CUstream stream, bool per_thread, struct target *t)
{
	CUresult r = context_usable(standin_thread.current);

	*t = (struct target){ .queue = NULL };
	if (!r && is_default(stream)) {
		if (!is_per_thread(stream, per_thread))
			r = legacy_check();
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

/* Returns true if an unsafe call of this thread invalidates the capture of S: see cuda.h, at
 * cuThreadExchangeStreamCaptureMode. */
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

/* As capture_check(), but for captures of every mode, and only on streams of CONTEXT. */
CUresult capture_check_context(CUcontext context)
{
	CUresult r = CUDA_SUCCESS;

	if (likely(!atomic_load(&standin_captures)))
		return r;
	pthread_mutex_lock(&stream_lock);
	for (struct CUstream_st *s = streams; s; s = s->next)
		if (s->status != CAPTURE_NONE &&
		    whole_context(s->context) == whole_context(context)) {
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

CUresult stream_make(CUstream *out, CUcontext context, unsigned int flags)
{
	struct CUstream_st *s = calloc(1, sizeof(*s));

	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->context = context;
	s->non_blocking = flags & 1;
	pthread_mutex_lock(&stream_lock);
	s->next = streams;
	streams = s;
	pthread_mutex_unlock(&stream_lock);
	*out = s;
	return CUDA_SUCCESS;
}

static CUresult stream_create(const char *name, CUstream *out, unsigned int flags)
{
	CUresult r = enter(name);

	if (r)
		return r;
	r = out ? stream_make(out, standin_thread.current, flags) : CUDA_ERROR_INVALID_VALUE;
	if (!r) /* cuStreamDestroy() does not return this memory: seen on an H200 */
		driver_takes(memory_context()->device, driver_cost(COST_STREAM));
	return r;
}

STANDIN(cuStreamCreate)(CUstream *phStream, unsigned int Flags)
{
	return stream_create("cuStreamCreate", phStream, Flags);
}

STANDIN(cuStreamCreateWithPriority)(CUstream *phStream, unsigned int flags, int priority)
{
	CUresult r = stream_create("cuStreamCreateWithPriority", phStream, flags);

	/* a priority outside the range is changed to the nearest one */
	if (!r)
		(*phStream)->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	return r;
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

/* Waiting for a stream that is captured invalidates the capture, whatever its mode. */
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

/* A default stream belongs to the current context. */
static CUresult context_of(const char *name, CUstream stream, CUcontext *context)
{
	struct CUstream_st *s = NULL;
	CUresult r = enter(name);

	if (r)
		return r;
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_default(stream)) {
		*context = standin_thread.current;
		return CUDA_SUCCESS;
	}
	pthread_mutex_lock(&stream_lock);
	s = *find_stream(stream);
	if (s)
		*context = s->context;
	pthread_mutex_unlock(&stream_lock);
	return s ? CUDA_SUCCESS : ERROR_INVALID_HANDLE;
}

STANDIN(cuStreamGetCtx)(CUstream hStream, CUcontext *pctx)
{
	return context_of("cuStreamGetCtx", hStream, pctx);
}

STANDIN(cuStreamGetCtx_ptsz)(CUstream hStream, CUcontext *pctx)
{
	return context_of("cuStreamGetCtx_ptsz", hStream, pctx);
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

/* GRAPH NULL: captures into a new graph. */
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

/* Locking: needs stream_lock. Makes STREAM a part of the capture with the number CAPTURE. */
CUresult join_capture(CUstream stream, cuuint64_t capture)
{
	struct CUstream_st *s = *find_stream(stream), *of = streams;

	while (of && !(of->status != CAPTURE_NONE && of->id == capture))
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

/* Crashes on an invalid stream, as the driver does (seen on an H200). */
static CUresult is_capturing(const char *name, CUstream stream, int *status)
{
	CUresult r = enter(name);

	if (r)
		return r;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	*status = CAPTURE_NONE;
	if (is_default(stream))
		return CUDA_SUCCESS;
	pthread_mutex_lock(&stream_lock);
	*status = (*find_stream(stream))->status;
	pthread_mutex_unlock(&stream_lock);
	return CUDA_SUCCESS;
}

STANDIN(cuStreamIsCapturing)(CUstream hStream, int *captureStatus)
{
	return is_capturing("cuStreamIsCapturing", hStream, captureStatus);
}

STANDIN(cuStreamIsCapturing_ptsz)(CUstream hStream, int *captureStatus)
{
	return is_capturing("cuStreamIsCapturing_ptsz", hStream, captureStatus);
}

/* Returns the graph that STREAM is captured into, or NULL if it is not captured or its capture is
 * invalid. */
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

/* Stores no dependencies, because the stand-in records no order of nodes. */
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
