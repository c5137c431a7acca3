/* SPDX-License-Identifier: MIT
 *
 * The pool of OpenCL buffers: what the wrappers ask of it. A whole cl_mem whose last reference
 * goes is kept and handed out again by (context, flags, size); docs/guides/opencl.md says by which
 * rules. `strict` and `fast` are the same here: a release never waits for commands in OpenCL,
 * so neither does ours, and a creation never waits either. Recording is none of its business.
 * While the pool is off, or in a forked child, everything answers that there is nothing.
 */
#ifndef GPULEAK_OPENCL_POOL_H
#define GPULEAK_OPENCL_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/block/blocks.h"
#include "interpose/opencl/opencl_types.h"

struct ledger_pool;

/* GPULEAK_POOL is set and a context was made; the first thing that a wrapper looks at. */
extern _Atomic bool opencl_pool_on __attribute__((visibility("hidden")));

/* Something was put into a queue since somebody asked; see opencl_pool_submitted(). */
extern _Atomic bool opencl_pool_work __attribute__((visibility("hidden")));

static inline bool opencl_pool_is_on(void)
{
	return __builtin_expect(atomic_load_explicit(&opencl_pool_on, memory_order_relaxed), 0);
}

/* A command was put into a queue: after the driver's call, which is enough, since what the
 * command uses is not released before that call has returned. */
static inline void opencl_pool_submitted(void)
{
	if (!atomic_load_explicit(&opencl_pool_work, memory_order_relaxed))
		atomic_store_explicit(&opencl_pool_work, true, memory_order_release);
}

/* ---- buffers ---- */

/* A kept buffer for this clCreateBuffer, recorded as made by it; NULL: the driver is to be
 * asked. */
cl_mem opencl_pool_take(const struct site *site, cl_context context, cl_mem_flags flags,
			size_t size, void *host_ptr, cl_int *errcode_ret);
/* The driver has made one: if it may be kept one day, records and follows it. Returns whether
 * it was recorded. */
bool opencl_pool_made(const struct site *site, cl_mem made, cl_context context,
		      cl_mem_flags flags, size_t size, void *host_ptr);
/* SITE made a cl_mem of any other sort, of PARENT's memory if that is not NULL. */
void opencl_pool_other(const struct site *site, cl_mem made, cl_context context, cl_mem parent);

/* Whether the call was dealt with, and what it answers; otherwise the driver is to be called,
 * and told of if it refused. */
bool opencl_pool_release(cl_mem object, cl_int *ret);
bool opencl_pool_retain(cl_mem object, cl_int *ret);
void opencl_pool_retain_failed(cl_mem object);
/* OBJECT is kept: to the application there is nothing. */
bool opencl_pool_is_kept(cl_mem object);
/* The application wants to know of OBJECT's end. */
void opencl_pool_has_callback(cl_mem object);

/* ---- contexts and queues ---- */

void opencl_pool_context_made(cl_context context);
void opencl_pool_context_retained(cl_context context);
/* Before the driver's call: with the last reference all that is kept of it goes. */
void opencl_pool_context_releasing(cl_context context);

void opencl_pool_queue_made(cl_context context, cl_command_queue queue);
void opencl_pool_queue_retained(cl_command_queue queue);
/* Before the driver's call. True: another thread is using the queue and will release it. */
bool opencl_pool_queue_releasing(cl_command_queue queue);

/* Around a clFinish that succeeded: all that was put into the queue before it is done. */
uint64_t opencl_pool_finishing(void);
void opencl_pool_finished(cl_command_queue queue, uint64_t epoch);

/* A function was handed out by which work gets into queues, or queues into the world, that we
 * do not see: nothing is kept any more. From a lookup. */
void opencl_pool_unseen(const char *name);

/* ---- memory ---- */

/* A call failed with CODE: if that is for want of memory, and the pool had some, it has given
 * it back and answers whose it was (count `rescued` there if that helped); else NULL. An
 * enqueued command is tried again only where it surely did not run. */
struct ledger_pool *opencl_pool_relieve(cl_int code);
struct ledger_pool *opencl_pool_relieve_command(cl_int code);
/* All that is kept goes back to the driver. Returns the bytes. */
uint64_t opencl_pool_return_all(void);

/* After a dlclose: contexts whose driver is gone are forgotten. */
void opencl_pool_library_gone(void);

#endif
