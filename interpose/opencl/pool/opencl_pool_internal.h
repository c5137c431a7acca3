/* SPDX-License-Identifier: MIT
 *
 * The OpenCL pool from inside, for opencl_pool.c, which owns its objects, and
 * opencl_fence.c, which owns contexts, their queues and tickets. Locks are held for table
 * work only, never over a call of the driver, never two at a time but as said.
 */
#ifndef GPULEAK_OPENCL_KEPT_H
#define GPULEAK_OPENCL_KEPT_H

#include "interpose/opencl/opencl_driver.h"
#include "interpose/opencl/pool/opencl_pool.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/base/hash.h"

#define KEPT_CONTEXTS 64
#define KEPT_QUEUES 32
#define KEPT_TICKETS 32 /* on their way in one context; with more, objects go to the driver */
#define KEPT_BUCKETS 256
#define KEPT_SHARDS 64
#define KEPT_DEVICES 65 /* of opencl_device_number(), and -1 */

/* The driver's functions, of the library that made the context: another may have its own. */
struct kept_calls {
	void *release_mem, *mem_info, *mark, *event_info, *release_event, *notify, *flush;
	void *release_queue;
	const void *below;
};

enum kept_state {
	KEPT_LIVE,
	KEPT_LEAVING, /* its last reference is gone, what becomes of it is not decided */
	KEPT_READY,   /* in the lists of its context */
	KEPT_GONE,    /* the driver's again */
};

/* A buffer that may be kept one day, until the driver says that it is gone. */
struct kept {
	uint64_t handle;
	struct kept_context *context;
	cl_mem_flags flags;
	size_t size;
	_Atomic uint64_t watched; /* of its block, see site.watched */
	_Atomic int state;
	_Atomic unsigned int reason; /* 1 + why it may not be kept */
	uint32_t references; /* the application's; with the shard's lock */
	bool told;           /* its block has ended */
	unsigned int busy;   /* times that it was not idle with its ticket done */
	uint64_t ticket;     /* from here on with the context's lock */
	uint64_t since_s;
	struct kept *prev, *next; /* in order of release */
	struct kept *up, *down;   /* in a bucket, in the same order; `down` alone among victims */
	struct kept *left, *right; /* of those that are not told */
	UT_hash_handle hh;
};

struct kept_queue {
	cl_command_queue handle;
	uint32_t references;
	uint32_t users;  /* threads that call the driver with it: it must not go */
	bool dying;      /* the application's last reference is gone */
};

/* Markers behind all that was in the queues when it was issued. */
struct kept_ticket {
	uint64_t number;
	uint64_t bytes; /* of what waits for it */
	bool ready;     /* its markers are in their queues */
	bool failed;
	bool flushed;
	bool tells; /* the driver says when a marker is done */
	unsigned int count;
	uint64_t done; /* a bit for each marker */
	cl_event events[KEPT_QUEUES];
};

struct kept_context {
	struct lock lock;
	bool taken;
	_Atomic(cl_context) handle; /* NULL: the application has none any more */
	uint32_t references;
	uint32_t issuing;  /* threads that put markers */
	_Atomic uint32_t objects; /* of it that exist */
	bool unpoolable;
	struct kept_calls calls;
	struct kept_device *device;
	struct kept *order, *untold; /* lists */
	struct kept *bucket[KEPT_BUCKETS];
	unsigned int queue_count;
	struct kept_queue queues[KEPT_QUEUES];
	/* Tickets done < number <= issued are in the ring. */
	uint64_t issued, done, failed; /* failed: newest of the done ones that had an error */
	uint64_t dropped;              /* up to this, what waited for failed ones was let go */
	uint64_t epoch; /* in which the last one was issued */
	bool polling;
	struct kept_ticket ring[KEPT_TICKETS];
};

struct kept_device {
	_Atomic int64_t used, kept, pending;
	uint64_t total;
	struct ledger_pool *row;
} __attribute__((aligned(64)));

struct kept_shard {
	struct lock lock;
	struct kept *objects;
} __attribute__((aligned(64)));

struct opencl_kept {
	struct arena *arena;
	struct lock lock; /* of who takes a context */
	_Atomic bool unseen;
	struct kept_device devices[KEPT_DEVICES];
	struct kept_shard shards[KEPT_SHARDS];
	struct kept_context contexts[KEPT_CONTEXTS];
};

/* Events that nobody needs any more, to be released outside of locks. */
struct kept_events {
	unsigned int count;
	cl_event events[2 * KEPT_QUEUES];
};

/* The pool of this very process, or NULL: also in a signal handler that came inside of us. */
struct opencl_kept *kept_pool(void);

/* A context's lock, with the thread marked busy as it is with any lock of ours. */
void kept_lock(struct kept_context *context);
void kept_unlock(struct kept_context *context);

struct kept_context *kept_find(struct opencl_kept *pool, cl_context handle);

/* ---- opencl_fence.c ---- */

/* A ticket that covers all that was put into CONTEXT's queues before the call; 0: there is
 * none to be had. With TELL the driver will say on its own when it is done. */
uint64_t ticket_get(struct kept_context *context, bool tell);
/* Asks the driver how far it is. Never waits. */
void ticket_poll(struct kept_context *context);
/* With the lock. BYTES more or less wait for ticket NUMBER. */
void ticket_bytes(struct kept_context *context, uint64_t number, int64_t bytes);

void kept_release_events(const struct kept_context *context, const struct kept_events *events);

/* ---- opencl_pool.c ---- */

/* The driver has said that tickets are done, or failed. Without the lock. */
void kept_tickets_done(struct kept_context *context);

/* With the lock: takes everything that is kept out of CONTEXT; what was not told is then. */
struct kept *kept_take_all(struct kept_context *context);
/* Gives them to the driver, without any lock. Returns the bytes. */
uint64_t kept_let_go(struct kept_context *context, struct kept *victims);

#endif
