/* SPDX-License-Identifier: MIT
 *
 * The pool of OpenCL buffers, for the wrappers. When the application releases the last
 * reference of a cl_mem, the pool caches the whole buffer and reuses it by (context, flags,
 * size). docs/guides/opencl.md has the rules. `strict` and `fast` are the same here: in OpenCL
 * neither a release nor a creation waits for commands, and the pool does not wait either.
 *
 * While the pool is off, and in a forked child, each function returns false, NULL or 0. Any
 * thread may call any function with no lock held. A signal handler may, too: calls that
 * interrupt the recorder bypass the pool.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/block/blocks.h"
#include "interpose/opencl/opencl_types.h"

struct ledger_pool;

/* True if GPULEAK_POOL is set and a context was created. A wrapper checks this first. */
extern _Atomic bool opencl_pool_on __attribute__((visibility("hidden")));

/* True if a command was enqueued since the last check; see opencl_pool_submitted(). */
extern _Atomic bool opencl_pool_work __attribute__((visibility("hidden")));

static inline bool opencl_pool_is_on(void)
{
	return __builtin_expect(atomic_load_explicit(&opencl_pool_on, memory_order_relaxed), 0);
}

/* Call after the driver enqueued a command. That is early enough: the application does not
 * release what the command uses before the driver's call has returned. */
static inline void opencl_pool_submitted(void)
{
	if (!atomic_load_explicit(&opencl_pool_work, memory_order_relaxed))
		atomic_store_explicit(&opencl_pool_work, true, memory_order_release);
}

/* ---- buffers ---- */

/* Returns a cached buffer for a clCreateBuffer call, and records the buffer as created by CALL.
 * Returns NULL if the driver must be called. */
cl_mem opencl_pool_alloc(struct call *call, cl_context context, cl_mem_flags flags,
			 size_t size, void *host_ptr, cl_int *errcode_ret);
/* Call after the driver created a buffer. If the pool may cache the buffer later, records and
 * tracks it. Returns true if it recorded the buffer. */
bool opencl_pool_created(struct call *call, cl_mem made, cl_context context,
			 cl_mem_flags flags, size_t size, void *host_ptr);
/* Call after CALL created another kind of cl_mem. PARENT owns its memory, or is NULL. */
void opencl_pool_created_other(struct call *call, cl_mem made, cl_context context,
			       cl_mem parent);

/* Returns true if the pool handled the call, with the result in *RET. Returns false if the driver
 * must be called. If the driver's retain then fails, call opencl_pool_retain_failed(). */
bool opencl_pool_release(cl_mem object, cl_int *ret);
bool opencl_pool_retain(cl_mem object, cl_int *ret);
void opencl_pool_retain_failed(cl_mem object);
/* Returns true if OBJECT is cached: the application has released it. */
bool opencl_pool_is_cached(cl_mem object);
/* The application registers a destructor callback for OBJECT: the pool will not cache it. */
void opencl_pool_has_callback(cl_mem object);

/* ---- contexts and queues ---- */

void opencl_pool_context_made(cl_context context);
void opencl_pool_context_retained(cl_context context);
/* Call before the driver's call. If it releases the last reference, returns all cached buffers of
 * CONTEXT to the driver. */
void opencl_pool_context_releasing(cl_context context);

void opencl_pool_queue_made(cl_context context, cl_command_queue queue);
void opencl_pool_queue_retained(cl_command_queue queue);
/* Call before the driver's call. Returns true if another thread uses QUEUE and will release it;
 * then do not call the driver. */
bool opencl_pool_queue_releasing(cl_command_queue queue);

/* Call around clFinish. After a success all commands are complete that were enqueued before
 * opencl_pool_finishing(), which returns the epoch. */
uint64_t opencl_pool_finishing(void);
void opencl_pool_finished(cl_command_queue queue, uint64_t epoch);

/* Call when a lookup returned function NAME. If commands or queues can be created by it without
 * the pool's knowledge, the pool caches nothing from then on. */
void opencl_pool_unseen(const char *name);

/* ---- memory ---- */

/* Call when a creation failed with CODE. If memory is short and the pool had cached memory,
 * returns that memory and the pool's record: count `rescued` there if a second try succeeds.
 * Otherwise returns NULL. opencl_pool_relieve_command() is for enqueued commands: it accepts
 * only a code that proves that the command did not run. */
struct ledger_pool *opencl_pool_relieve(cl_int code);
struct ledger_pool *opencl_pool_relieve_command(cl_int code);
/* Returns all cached buffers to the driver. Returns the bytes. */
uint64_t opencl_pool_return_all(void);

/* Call after dlclose(). Drops contexts whose driver was unloaded. */
void opencl_pool_after_dlclose(void);
