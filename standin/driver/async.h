/* SPDX-License-Identifier: MIT
 *
 * Work that really runs, with STANDIN_ASYNC=SEED. A queue has the work of one stream, in order.
 * async.c runs the queues, bytes.c accesses the memory of a piece of work, work.c has the calls
 * that submit. Nothing here is used while the variable is unset.
 */
#ifndef GPULEAK_STANDIN_ASYNC_H
#define GPULEAK_STANDIN_ASYNC_H

#include "standin/driver/standin.h"

typedef void (*CUhostFn)(void *data);

/* Memory that work touches, as it was when the work was submitted. */
struct range {
	enum { RANGE_NONE, RANGE_DEVICE, RANGE_PINNED, RANGE_HOST, RANGE_UNKNOWN } where;
	/* of the block, because another block may begin at its address later */
	unsigned short generation;
	bool managed; /* with STANDIN_FAKE_GPU: the host accesses it at the same address */
	uint64_t mapped;  /* the address that the work uses, of mapped memory; else 0 */
	uint64_t address; /* in the heap */
	uint64_t bytes;
};

enum work_kind { WORK_MARK, WORK_SPIN, WORK_WAIT, WORK_FILL, WORK_CHECK, WORK_COPY, WORK_SET,
		 WORK_HOST, WORK_FREE };

struct queue;

struct after {
	struct queue *queue;
	uint64_t number;
};

struct work {
	struct work *next;
	const char *name; /* of the call */
	enum work_kind kind;
	bool is_kernel; /* an access to an address that is not mapped breaks its context */
	struct range to, from;
	uint32_t value;
	unsigned int width; /* of what WORK_SET writes */
	uint64_t clocks;    /* nanoseconds */
	CUhostFn call;
	void *data;
	void *staging; /* copy of the source, freed with the work */
	/* set by the queue: these and all further members */
	CUcontext context;
	bool started, at_once;
	uint64_t ends, submission;
	unsigned int afters;
	struct after after[];
};

/* async.c */
void async_begin(uint64_t seed);
void async_exit(void);
struct queue *async_queue(CUcontext context, bool blocking);
struct queue *async_default_queue(CUcontext context, bool per_thread);
void async_orphan(struct queue *queue);
/* Adds a copy of WORK to QUEUE, which frees WORK's staging. AFTER: work of another queue to wait
 * for, or NULL. */
CUresult async_submit(struct queue *queue, const struct work *work, const struct after *after,
		      struct after *submitted);
CUresult async_record_context(CUcontext context, const char *name, struct after *submitted);
bool async_done(struct after what);
bool async_idle(struct queue *queue);
void async_wait(const char *name, struct after what);
CUresult async_wait_queue(const char *name, struct queue *queue);
void async_wait_context(const char *name, CUcontext context);
/* Waits as a free of CONTEXT's memory does. Meanwhile async_pass_frees(), which other calls make,
 * waits for this one. */
void async_wait_to_free(const char *name, CUcontext context);
void async_pass_frees(CUcontext context);
void async_drop_context(CUcontext context);

/* bytes.c */
struct range range_of(uint64_t address, uint64_t bytes, bool device);
void bytes_violation(const struct work *work, const struct range *range, const char *when);
/* Returns true if all memory that the work uses still belongs to the blocks of its submission. */
bool bytes_intact(const struct work *work, const char *when);
bool bytes_flag_set(const struct work *work);
void bytes_execute(const struct work *work);

/* work.c: a copy, and a fill of COUNT elements of WIDTH bytes */
enum { TO_DEVICE = 1, FROM_DEVICE = 2, PER_THREAD = 4, AT_ONCE = 8 };
CUresult work_copy(const char *name, uint64_t to, uint64_t from, size_t bytes, CUstream stream,
		   int how);
CUresult work_fill(const char *name, CUdeviceptr to, uint32_t value, unsigned int width,
		   size_t count, CUstream stream, bool per_thread);

/* stream.c: where a call puts the work of a stream: into a queue, or into the graph of a capture */
struct target {
	struct queue *queue;
	CUgraph graph;
};
CUresult stream_target(CUstream stream, bool per_thread, struct target *t);

/* graph.c */
CUresult graph_capture_work(CUgraph graph, const struct work *work);

#endif
