/* SPDX-License-Identifier: MIT
 *
 * Streams, events, modules and launches: nothing runs, so all work is done when it is
 * submitted. What does have rules is stream capture: which call may happen beside which
 * capture, and how that capture ends. Owns the stream and event handles.
 */
#include <pthread.h>
#include <stdlib.h>

#include "standin.h"

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
};

struct CUevent_st {
	struct CUevent_st *next;
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

static void remove_stream(struct CUstream_st **link)
{
	struct CUstream_st *s = *link;

	if (s->status != CAPTURE_NONE) {
		atomic_fetch_sub(&standin_captures, 1);
		if (!s->given)
			graph_abandon(s->graph);
	}
	*link = s->next;
	free(s);
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

static CUresult stream_create(const char *name, CUstream *out)
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
	pthread_mutex_lock(&stream_lock);
	s->next = streams;
	streams = s;
	pthread_mutex_unlock(&stream_lock);
	*out = s;
	return CUDA_SUCCESS;
}

STANDIN(cuStreamCreate)(CUstream *phStream, unsigned int Flags)
{
	(void)Flags;
	return stream_create("cuStreamCreate", phStream);
}

STANDIN(cuStreamCreateWithPriority)(CUstream *phStream, unsigned int flags, int priority)
{
	(void)flags;
	(void)priority;
	return stream_create("cuStreamCreateWithPriority", phStream);
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
static CUresult stream_wait(const char *name, CUstream stream)
{
	struct CUstream_st *s;
	CUresult r = enter(name);

	if (r)
		return r;
	if (is_default(stream))
		return capture_check();
	pthread_mutex_lock(&stream_lock);
	s = *find_stream(stream);
	if (!s) {
		r = ERROR_INVALID_HANDLE;
	} else if (s->status != CAPTURE_NONE) {
		s->status = CAPTURE_INVALIDATED;
		r = ERROR_CAPTURE_UNSUPPORTED;
	}
	pthread_mutex_unlock(&stream_lock);
	return r;
}

STANDIN(cuStreamSynchronize)(CUstream hStream)
{
	return waited(stream_wait("cuStreamSynchronize", hStream));
}

STANDIN(cuStreamSynchronize_ptsz)(CUstream hStream)
{
	return waited(stream_wait("cuStreamSynchronize_ptsz", hStream));
}

STANDIN(cuStreamQuery)(CUstream hStream)
{
	return stream_wait("cuStreamQuery", hStream);
}

STANDIN(cuStreamQuery_ptsz)(CUstream hStream)
{
	return stream_wait("cuStreamQuery_ptsz", hStream);
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
	if (s->mode != CAPTURE_RELAXED && s->thread != &standin_thread)
		return ERROR_CAPTURE_WRONG_THREAD;
	intact = s->status == CAPTURE_ACTIVE;
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

static CUresult event_record(const char *name, CUevent event, CUstream stream)
{
	bool capturing;
	CUresult r = event_check(name, event);

	return r ? r : stream_check(stream, &capturing);
}

STANDIN(cuEventRecord)(CUevent hEvent, CUstream hStream)
{
	return event_record("cuEventRecord", hEvent, hStream);
}

STANDIN(cuEventRecord_ptsz)(CUevent hEvent, CUstream hStream)
{
	return event_record("cuEventRecord_ptsz", hEvent, hStream);
}

STANDIN(cuEventQuery)(CUevent hEvent)
{
	CUresult r = event_check("cuEventQuery", hEvent);

	return r ? r : capture_check();
}

STANDIN(cuEventSynchronize)(CUevent hEvent)
{
	CUresult r = event_check("cuEventSynchronize", hEvent);

	return waited(r ? r : capture_check());
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

STANDIN(cuCtxRecordEvent)(CUcontext hCtx, CUevent hEvent)
{
	CUresult r = event_check("cuCtxRecordEvent", hEvent);

	if (!r && hCtx)
		r = context_usable(hCtx);
	if (!r && atomic_load(&standin_captures))
		r = capture_check_slow(true);
	return r;
}

static CUresult some_handle(const char *name, void **out)
{
	static char handle;
	CUresult r = enter(name);

	if (r)
		return r;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = &handle;
	return CUDA_SUCCESS;
}

STANDIN(cuModuleLoad)(CUmodule *module, const char *fname)
{
	(void)fname;
	return some_handle("cuModuleLoad", (void **)module);
}

STANDIN(cuModuleLoadData)(CUmodule *module, const void *image)
{
	(void)image;
	return some_handle("cuModuleLoadData", (void **)module);
}

STANDIN(cuModuleLoadDataEx)(CUmodule *module, const void *image, unsigned int numOptions,
			    CUjit_option *options, void **optionValues)
{
	(void)image, (void)numOptions, (void)options, (void)optionValues;
	return some_handle("cuModuleLoadDataEx", (void **)module);
}

STANDIN(cuModuleLoadFatBinary)(CUmodule *module, const void *fatCubin)
{
	(void)fatCubin;
	return some_handle("cuModuleLoadFatBinary", (void **)module);
}

STANDIN(cuLibraryLoadData)(CUlibrary *library, const void *code, CUjit_option *jitOptions,
			   void **jitOptionsValues, unsigned int numJitOptions,
			   CUlibraryOption *libraryOptions, void **libraryOptionValues,
			   unsigned int numLibraryOptions)
{
	(void)code, (void)jitOptions, (void)jitOptionsValues, (void)numJitOptions;
	(void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
	return some_handle("cuLibraryLoadData", (void **)library);
}

STANDIN(cuLibraryLoadFromFile)(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
			       void **jitOptionsValues, unsigned int numJitOptions,
			       CUlibraryOption *libraryOptions, void **libraryOptionValues,
			       unsigned int numLibraryOptions)
{
	(void)fileName, (void)jitOptions, (void)jitOptionsValues, (void)numJitOptions;
	(void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
	return some_handle("cuLibraryLoadFromFile", (void **)library);
}

STANDIN(cuCtxSetLimit)(CUlimit limit, size_t value)
{
	(void)limit, (void)value;
	return standin_do_nothing("cuCtxSetLimit");
}

STANDIN(cuFuncLoad)(CUfunction function)
{
	(void)function;
	return standin_do_nothing("cuFuncLoad");
}

STANDIN(cuModuleGetFunction)(void **hfunc, void *hmod, const char *name)
{
	(void)hmod;
	(void)name;
	return some_handle("cuModuleGetFunction", hfunc);
}

NOTHING(cuModuleUnload)
NOTHING(cuLaunchKernel)
NOTHING(cuLaunchKernel_ptsz)
NOTHING(cuStreamWaitEvent)
NOTHING(cuStreamWaitEvent_ptsz)
NOTHING(cuMemcpy)
NOTHING(cuMemcpy_ptds)
NOTHING(cuMemcpyAsync)
NOTHING(cuMemcpyAsync_ptsz)
NOTHING(cuMemcpyHtoD_v2)
NOTHING(cuMemcpyHtoD_v2_ptds)
NOTHING(cuMemcpyHtoDAsync_v2)
NOTHING(cuMemcpyHtoDAsync_v2_ptsz)
NOTHING(cuMemcpyDtoH_v2)
NOTHING(cuMemcpyDtoH_v2_ptds)
NOTHING(cuMemcpyDtoHAsync_v2)
NOTHING(cuMemcpyDtoHAsync_v2_ptsz)
NOTHING(cuMemcpyDtoD_v2)
NOTHING(cuMemcpyDtoD_v2_ptds)
NOTHING(cuMemcpyDtoDAsync_v2)
NOTHING(cuMemcpyDtoDAsync_v2_ptsz)
NOTHING(cuMemsetD8_v2)
NOTHING(cuMemsetD8_v2_ptds)
NOTHING(cuMemsetD8Async)
NOTHING(cuMemsetD8Async_ptsz)
NOTHING(cuMemsetD32_v2)
NOTHING(cuMemsetD32_v2_ptds)
NOTHING(cuMemsetD32Async)
NOTHING(cuMemsetD32Async_ptsz)
