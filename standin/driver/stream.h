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
	CUgraph graph; /* captured into */
	bool given;    /* by the application: not the capture's to destroy */
	cuuint64_t id;
	struct standin_thread *thread; /* that began the capture: compared, never followed */
	bool non_blocking;
	int priority;
	struct queue *queue;	/* from the first work on */
	struct CUstream_st *of; /* whose capture it has joined */
};

extern pthread_mutex_t stream_lock;

/* These two with the lock held. */
struct CUstream_st **find_stream(CUstream stream);
CUresult join_capture(CUstream stream, cuuint64_t capture);

CUresult capture_check_context(CUcontext context);

/* NULL, legacy and per-thread default stream are always there. */
static inline bool is_default(CUstream stream)
{
	return (uintptr_t)stream <= 2;
}

/* Whose memory a green context's is. */
static inline CUcontext whole_context(CUcontext context)
{
	return context->part_of ? context->part_of : context;
}

#endif
