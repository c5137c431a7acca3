/* SPDX-License-Identifier: MIT
 *
 * The OpenCL pool's data, for opencl_pool.c, which owns the buffers, and for opencl_fence.c,
 * which owns contexts, their queues and fences. A lock covers table work only: no driver call is
 * made with a lock held, and two locks are nested only where a comment says so.
 */
#pragma once

#include "interpose/opencl/opencl_driver.h"
#include "interpose/opencl/pool/opencl_pool.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/base/hash.h"

#define CL_POOL_CONTEXTS 64
#define CL_POOL_QUEUES 32
#define CL_POOL_FENCES 32 /* pending in one context; beyond that, buffers go to the driver */
#define CL_POOL_BUCKETS 256
#define CL_POOL_SHARDS 64
#define CL_POOL_DEVICES 65 /* numbers of opencl_device_number(), and -1 */

/* Functions of the driver that made the context: several drivers may be loaded. */
struct cl_pool_calls {
	used_clReleaseMemObject *release_mem;
	used_clGetMemObjectInfo *mem_info;
	used_clEnqueueMarkerWithWaitList *mark;
	used_clGetEventInfo *event_info;
	used_clReleaseEvent *release_event;
	used_clSetEventCallback *notify;
	used_clFlush *flush;
	used_clReleaseCommandQueue *release_queue;
	const void *below;
};

/* Calls MEMBER of CALLS, which is the driver's function SYMBOL. */
#define CL_POOL_CALL(calls, member, symbol, ...)                                              \
	({                                                                                    \
		const struct route route = { (void *)(calls)->member, true, (calls)->below }; \
		INSIDE(&hooks[HOOK_##symbol], route);                                         \
		(calls)->member(__VA_ARGS__);                                                 \
	})

enum buffer_state {
	BUFFER_LIVE,
	BUFFER_RELEASING, /* the last reference was released; not yet cached or returned */
	BUFFER_CACHED,    /* in the lists of its context */
	BUFFER_RETURNED,  /* the driver owns it again */
};

/* A buffer that the pool may cache, until the driver reports its destruction. */
struct cl_pool_buffer {
	uint64_t handle;
	struct cl_pool_context *context;
	cl_mem_flags flags;
	size_t size;
	_Atomic uint64_t watched; /* of its recorded block, see call.watched */
	_Atomic int state;        /* enum buffer_state */
	_Atomic unsigned int reason; /* 1 + why it may not be cached, or 0 */
	uint32_t references;     /* the application's; under the shard's lock */
	bool end_recorded;       /* the recorder has the end of its block */
	unsigned int busy_count; /* times that it was in use although its fence was complete */
	uint64_t fence;          /* this and what follows: under the context's lock */
	uint64_t since_s;        /* when it was cached, CLOCK_MONOTONIC_COARSE */
	struct cl_pool_buffer *prev, *next; /* in order of release */
	/* In a bucket, in order of release. Buffers that leave the cache are linked by
	 * bucket_next. */
	struct cl_pool_buffer *bucket_prev, *bucket_next;
	struct cl_pool_buffer *unrecorded_prev, *unrecorded_next; /* in end_unrecorded */
	UT_hash_handle hh;
};

struct cl_pool_queue {
	cl_command_queue handle;
	uint32_t references; /* the application's */
	uint32_t users; /* threads that call the driver with the queue: it must not be released */
	bool dying;     /* the application has released its last reference */
};

/* One marker in each queue of the context, behind all commands that were in the queue. */
struct cl_pool_fence {
	uint64_t number;
	uint64_t bytes; /* sum of the sizes of the cached buffers that wait for it */
	bool ready;     /* all markers are in their queues */
	bool failed;
	bool flushed;
	bool notifies; /* the driver calls on_marker() for each marker */
	unsigned int count;
	uint64_t completed_markers; /* a bit for each marker */
	cl_event events[CL_POOL_QUEUES];
};

struct cl_pool_context {
	struct lock lock;
	bool reserved;
	_Atomic(cl_context) handle; /* NULL: the application has released it */
	uint32_t references;
	uint32_t issuing;         /* number of threads that are enqueuing markers */
	_Atomic uint32_t objects; /* buffers of the context that exist */
	bool unpoolable;
	struct cl_pool_calls calls;
	struct cl_pool_device *device;
	/* Cached buffers: all, oldest first, and those whose end is not recorded yet. */
	struct cl_pool_buffer *order, *end_unrecorded;
	struct cl_pool_buffer *bucket[CL_POOL_BUCKETS];
	unsigned int queue_count;
	struct cl_pool_queue queues[CL_POOL_QUEUES];
	/* Fences with completed < number <= last_issued are in the ring. */
	uint64_t last_issued, completed;
	uint64_t failed;  /* the newest completed fence that had an error */
	uint64_t dropped; /* buffers of failed fences up to this one were returned */
	uint64_t epoch;   /* work_epoch() in which the last fence was issued */
	bool polling;
	struct cl_pool_fence ring[CL_POOL_FENCES];
};

struct cl_pool_device {
	_Atomic int64_t used, cached, pending; /* bytes */
	uint64_t total; /* bytes of the device; read only if a limit is a percentage of it */
	struct ledger_pool *record;
} __attribute__((aligned(64)));

struct cl_pool_shard {
	struct lock lock;
	struct cl_pool_buffer *objects;
} __attribute__((aligned(64)));

struct cl_pool {
	struct arena *arena;
	struct lock lock; /* for reserving a context; taken before a context's lock */
	_Atomic bool unseen_queues;
	struct cl_pool_device devices[CL_POOL_DEVICES];
	struct cl_pool_shard shards[CL_POOL_SHARDS];
	struct cl_pool_context contexts[CL_POOL_CONTEXTS];
};

/* Events of completed fences, to be released when no lock is held. */
struct cl_pool_events {
	unsigned int count;
	cl_event events[2 * CL_POOL_QUEUES];
};

/* Returns the pool of this process. Returns NULL if there is no pool, after fork() in the child,
 * and in a signal handler that interrupted the recorder. */
struct cl_pool *cl_pool_current(void);

/* Take and release CONTEXT's lock. The thread is marked busy between them, so that a signal
 * handler's calls bypass the pool. */
void cl_pool_lock(struct cl_pool_context *context);
void cl_pool_unlock(struct cl_pool_context *context);

/* Returns the pool's context for HANDLE, or NULL. Takes no lock. */
struct cl_pool_context *cl_pool_lookup_context(struct cl_pool *pool, cl_context handle);

/* ---- opencl_fence.c ---- */

/* Call without a lock. Returns the number of a fence that covers all commands that were in
 * CONTEXT's queues before the call; 0 if a fence could not be issued. With NOTIFY, the driver calls
 * back when the fence is complete. */
uint64_t cl_fence_get(struct cl_pool_context *context, bool notify);
/* Queries the driver which fences are complete. Never waits. Call without a lock. */
void cl_fences_poll(struct cl_pool_context *context);
/* Locking: needs CONTEXT's lock. Adds BYTES, which may be negative, to the number of bytes that
 * wait for fence NUMBER. */
void cl_fence_add_bytes(struct cl_pool_context *context, uint64_t number, int64_t bytes);

/* Releases EVENTS to the driver. Call without a lock. */
void cl_pool_release_events(const struct cl_pool_context *context,
			    const struct cl_pool_events *events);

/* ---- opencl_pool.c ---- */

/* Call without a lock after fences of CONTEXT completed or failed. Records the ends of blocks
 * that waited for them, and returns buffers of failed fences to the driver. */
void cl_pool_fences_completed(struct cl_pool_context *context);

/* Locking: needs CONTEXT's lock. Removes every cached buffer and returns them, linked by
 * bucket_next, for cl_pool_return(). */
struct cl_pool_buffer *cl_pool_remove_all(struct cl_pool_context *context);
/* Releases VICTIMS to the driver and returns their bytes. A block whose end is not recorded yet
 * ends when the driver reports the destruction. Call without a lock. */
uint64_t cl_pool_return(struct cl_pool_context *context, struct cl_pool_buffer *victims);
