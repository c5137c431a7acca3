/* SPDX-License-Identifier: MIT
 *
 * What streams and events share: the lock of both, and what a stream is.
 */
#ifndef GPULEAK_STANDIN_STREAM_H
#define GPULEAK_STANDIN_STREAM_H

#include <pthread.h>

#include "standin/driver/async.h"

enum { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };
enum { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED }; /* CUstreamCaptureStatus */

struct CUstream_st {
	struct CUstream_st *next;
	CUcontext context;
	int status, mode;
	CUgraph graph; /* the graph that the stream is captured into */
	bool given;    /* the application passed `graph`, so the capture must not destroy it */
	cuuint64_t id;
	/* the thread that began the capture; only compared, never dereferenced */
	struct standin_thread *thread;
	bool non_blocking;
	int priority;
	struct queue *queue;	/* NULL until the first work */
	struct CUstream_st *of; /* the stream whose capture this one has joined, or NULL */
};

extern pthread_mutex_t stream_lock;

/* Locking: both need stream_lock. */
struct CUstream_st **find_stream(CUstream stream);
CUresult join_capture(CUstream stream, cuuint64_t capture);

CUresult capture_check_context(CUcontext context);

/* Returns true for the handles NULL, legacy and per-thread, whose streams always exist. */
static inline bool is_default(CUstream stream)
{
	return (uintptr_t)stream <= 2;
}

/* Returns the primary context that owns the memory of a green context. Returns any other context
 * unchanged. */
static inline CUcontext whole_context(CUcontext context)
{
	return context->part_of ? context->part_of : context;
}

#endif
