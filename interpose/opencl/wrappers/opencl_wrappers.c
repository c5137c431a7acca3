/* SPDX-License-Identifier: MIT
 *
 * OpenCL's wrappers, two for each row: an exported one, for callers linked to the name, and one
 * that lookups return. hooks.def describes each verb. A verb is a short macro here, which calls the
 * driver and the functions that record. Verbs use the parameters of their rows by the names of
 * OpenCL's specification: errcode_ret, command_queue and so on.
 */
#include "interpose/block/limit.h"
#include "interpose/block/blocks.h"
#include "interpose/block/mappings.h"
#include "interpose/block/pool_counters.h"
#include "interpose/block/wrap.h"
#include "interpose/opencl/opencl_driver.h"
#include "interpose/opencl/wrappers/opencl_calls.h"
#include "interpose/opencl/wrappers/opencl_rows.h"
#include "interpose/opencl/pool/opencl_pool.h"
#include "interpose/opencl/user_events.h"

/* Used in the rows: the call succeeded. */
#define CL_OK (r == CL_SUCCESS)
#define CL_MADE (r != NULL)
#define CL_DONE 1

static HOT uint64_t number_of(const void *handle)
{
	return (uint64_t)(uintptr_t)handle;
}

/* R = CALL. If the call failed and RELIEVE, a function of OpenCL's pool, returned memory to the
 * driver, calls once more. */
#define OPENCL_CALL_TWICE(r, call, made, relieve)                                           \
	struct ledger_pool *relieved;                                                       \
	record_call();                                                                      \
	(r) = (call);                                                                       \
	if (__builtin_expect(!(made), 0) && opencl_pool_is_on() && (relieved = (relieve))) { \
		inside_again();                                                             \
		(r) = (call);                                                               \
		pools_count(&relieved->rescued, made);                                      \
	}                                                                                   \
	record_call_done();

/* ---- calls that make memory ---- */

static COLD void *refuse(cl_int *errcode_ret, cl_int code)
{
	if (errcode_ret)
		*errcode_ret = code;
	return NULL;
}

/* Returns the code of a failed creation. If the application requested no code, assumes that memory
 * ran out. */
static cl_int code_of(const cl_int *errcode_ret)
{
	return errcode_ret ? *errcode_ret : CL_MEM_OBJECT_ALLOCATION_FAILURE;
}

/* KEPT is the cached buffer that the pool returns for this call, or NULL. RECORD is an expression
 * that records the new object. */
#define CREATE_BY(call, made, context, size, kept, record)                                  \
	cl_mem r = NULL;                                                                    \
	if (LIMITS_REFUSE(&site, opencl_device_of(context), size))                          \
		return refuse(errcode_ret, CL_MEM_OBJECT_ALLOCATION_FAILURE);               \
	if (!opencl_pool_is_on() || !(r = (kept))) {                                        \
		OPENCL_CALL_TWICE(r, call, made, opencl_pool_relieve(code_of(errcode_ret))) \
		if (made)                                                                   \
			record;                                                             \
	}                                                                                   \
	MADE(r)

#define MADE(r)                                                                             \
	limits_done();                                                                      \
	return r;

#define VERB_CREATE(call, made, context, size)                                              \
	CREATE_BY(call, made, context, size, NULL,                                          \
		  opencl_record_made(&site, r, (context), (uint64_t)(size)))

static void record_buffer(const struct site *site, cl_mem made, cl_context context,
			  cl_mem_flags flags, size_t size, void *host_ptr)
{
	if (!opencl_pool_created(site, made, context, flags, size, host_ptr))
		opencl_record_made(site, made, context, size);
}

#define VERB_BUFFER(call, made, context, size)                                              \
	CREATE_BY(call, made, context, size,                                                \
		  opencl_pool_alloc(&site, context, flags, size, host_ptr, errcode_ret),     \
		  record_buffer(&site, r, context, flags, size, host_ptr))

/* For calls that return an address of shared memory. ERRCODE is where the code of a refusal is
 * stored, or NULL. */
#define LEND_BY(call, made, device, size, errcode)                                          \
	void *r;                                                                            \
	site.space = SPACE_CL_USM;                                                          \
	if (LIMITS_REFUSE(&site, (device), size))                                           \
		return refuse(errcode, CL_OUT_OF_RESOURCES);                                \
	OPENCL_CALL_TWICE(r, call, made, relieved_for(size))                                \
	if (made)                                                                           \
		record_made(&site, number_of(r), (size), number_of(context), (device), 0);  \
	MADE(r)

/* A call for 0 bytes fails however much memory is free, so the pool returns none. */
static COLD struct ledger_pool *relieved_for(size_t size)
{
	return size ? opencl_pool_relieve(CL_MEM_OBJECT_ALLOCATION_FAILURE) : NULL;
}

#define VERB_LEND(call, made, device, size) LEND_BY(call, made, device, size, NULL)
#define VERB_SHARE(call, made, device, size) LEND_BY(call, made, device, size, errcode_ret)

/* ---- calls that make another object ---- */

#define MAKE(call, made, record)                                                            \
	__typeof__(call) r;                                                                 \
	WRAP_CALL(r, call);                                                                 \
	if (made)                                                                           \
		record;                                                                     \
	return r;

static void record_queue(const struct site *site, cl_command_queue queue, cl_context context)
{
	opencl_record_object(site, queue, context);
	if (opencl_pool_is_on())
		opencl_pool_queue_made(context, queue);
}

static void record_user_event(const struct site *site, cl_event event, cl_context context)
{
	opencl_record_object(site, event, context);
	user_event_made(site, event);
}

#define VERB_OBJECT(call, made, context, size)                                              \
	MAKE(call, made, opencl_record_object(&site, r, (context)))
#define VERB_QUEUE(call, made, context, size) MAKE(call, made, record_queue(&site, r, (context)))
#define VERB_USER_EVENT(call, made, context, size)                                          \
	MAKE(call, made, record_user_event(&site, r, (context)))
#define VERB_CONTEXT(call, made, key, size) MAKE(call, made, opencl_record_context(&site, r))
#define VERB_KERNELS(call, made, program, size)                                             \
	MAKE(call, made,                                                                    \
	     opencl_record_kernels(&site, program, num_kernels, kernels, num_kernels_ret))

/* ---- commands ---- */

/* Used in the rows: the memory that a command uses. Memory objects, an array of them, or the
 * arguments of a kernel. */
struct uses {
	cl_uint count;
	const cl_mem *objects;
	cl_kernel kernel;
};
#define USES(...)                                                                           \
	((struct uses){ sizeof((cl_mem[]){ __VA_ARGS__ }) / sizeof(cl_mem),                 \
			(const cl_mem[]){ __VA_ARGS__ }, NULL })
#define USES_ALL(count, objects) ((struct uses){ count, objects, NULL })
#define USES_OF(kernel) ((struct uses){ 0, NULL, kernel })

/* Drivers may allocate a buffer's memory at its first command, which then may fail for lack of
 * memory. EVENT is where the command's event is stored, or NULL. CODE is the command's error
 * code. */
#define COMMAND(call, made, event, code)                                                    \
	__typeof__(call) r;                                                                 \
	OPENCL_CALL_TWICE(r, call, made, opencl_pool_relieve_command(code))                 \
	opencl_pool_submitted();                                                            \
	if ((event) && (made))                                                              \
		opencl_record_object(&site, *(event), NULL);

#define RECORD_BEHIND(made, event, used)                                                    \
	if (user_events_are_open() && (made)) {                                             \
		const struct uses uses = (used);                                            \
		const struct command command = {                                            \
			command_queue, num_events_in_wait_list, event_wait_list,            \
			(event) ? *(event) : NULL, uses.count, uses.objects, uses.kernel,   \
		};                                                                          \
		user_events_enqueued(&site, &command);                                      \
	}

/* Compiles to a tail call for the case that the caller wants no event and nothing else has to be
 * recorded. */
#define VERB_EVENT(call, made, event, size)                                                 \
	if (__builtin_expect(!(event), 1) && !opencl_pool_is_on())                          \
		return call;                                                                \
	COMMAND(call, made, event, r)                                                       \
	return r;

#define VERB_COMMAND(call, made, event, used)                                               \
	if (__builtin_expect(!(event), 1) && !opencl_pool_is_on() && !user_events_are_open()) \
		return call;                                                                \
	COMMAND(call, made, event, r)                                                       \
	RECORD_BEHIND(made, event, used)                                                    \
	return r;

#define VERB_MAP(call, made, event, used)                                                   \
	COMMAND(call, made, event, r || !errcode_ret ? CL_SUCCESS : *errcode_ret)           \
	RECORD_BEHIND(made, event, used)                                                    \
	if (made)                                                                           \
		record_mapped(&site, number_of((used).objects[0]), number_of(r));           \
	return r;

#define VERB_UNMAP(call, made, event, used)                                                 \
	struct unmapping unmapping;                                                         \
	record_unmapping(&site, number_of((used).objects[0]), number_of(mapped_ptr), &unmapping); \
	COMMAND(call, made, event, r)                                                       \
	if (!(made))                                                                        \
		record_unmapping_failed(&unmapping);                                        \
	RECORD_BEHIND(made, event, used)                                                    \
	return r;

/* ---- calls that change recorded state ---- */

#define AFTER(call, made, record)                                                           \
	cl_int r = (call);                                                                  \
	if (made)                                                                           \
		record;                                                                     \
	return r;

static void record_retained_queue(const struct site *site, cl_command_queue queue)
{
	record_retained(site, number_of(queue));
	if (opencl_pool_is_on())
		opencl_pool_queue_retained(queue);
}

static void record_retained_context(const struct site *site, cl_context context)
{
	record_retained(site, number_of(context));
	if (opencl_pool_is_on())
		opencl_pool_context_retained(context);
}

#define VERB_ARGUMENT(call, made, kernel, size)                                             \
	AFTER(call, made, opencl_record_argument((kernel), arg_index, arg_size, arg_value))
#define VERB_SET(call, made, event, size) AFTER(call, made, user_event_set(event))
#define VERB_RETAIN(call, made, key, size) AFTER(call, made, record_retained(&site, number_of(key)))
#define VERB_RETAIN_QUEUE(call, made, key, size)                                            \
	AFTER(call, made, record_retained_queue(&site, key))
#define VERB_RETAIN_CONTEXT(call, made, key, size)                                          \
	AFTER(call, made, record_retained_context(&site, key))

/* The driver still has one reference of a buffer that the pool caches, and would retain it. So the
 * pool handles the call for such a buffer. */
#define VERB_RETAIN_MEM(call, made, object, size)                                           \
	cl_int r;                                                                           \
	bool dealt = opencl_pool_is_on() && opencl_pool_retain((object), &r);               \
	if (!dealt)                                                                         \
		r = (call);                                                                 \
	if (made)                                                                           \
		record_retained(&site, number_of(object));                                  \
	else if (opencl_pool_is_on() && !dealt)                                             \
		opencl_pool_retain_failed(object);                                          \
	return r;

#define VERB_FINISH(call, made, queue, size)                                                \
	uint64_t epoch;                                                                     \
	if (!opencl_pool_is_on())                                                           \
		return call;                                                                \
	epoch = opencl_pool_finishing();                                                    \
	AFTER(call, made, opencl_pool_finished((queue), epoch))

/* ---- calls that end a reference ---- */

/* DEALT: OpenCL's pool handled the call, so the driver is not called. */
#define RELEASE_UNLESS(dealt, call, key)                                                    \
	struct freeing freeing;                                                             \
	cl_int r = CL_SUCCESS;                                                              \
	record_releasing(&site, number_of(key), &freeing);                                  \
	record_call_freeing(&freeing);                                                      \
	if (!(dealt))                                                                       \
		r = (call);                                                                 \
	record_call_done();                                                                 \
	record_released(hook, &freeing, opencl_outcome(r), (int)r);                         \
	return r;

#define VERB_RELEASE(call, made, key, size) RELEASE_UNLESS(false, call, key)
#define VERB_RELEASE_MEM(call, made, key, size)                                             \
	RELEASE_UNLESS(opencl_pool_is_on() && opencl_pool_release((key), &r), call, key)
#define VERB_RELEASE_QUEUE(call, made, key, size)                                           \
	RELEASE_UNLESS(opencl_pool_is_on() && opencl_pool_queue_releasing(key), call, key)
#define VERB_RELEASE_CONTEXT(call, made, key, size)                                         \
	if (opencl_pool_is_on())                                                            \
		opencl_pool_context_releasing(key);                                         \
	RELEASE_UNLESS(false, call, key)
#define VERB_UNSHARE(call, made, key, size)                                                 \
	site.space = SPACE_CL_USM;                                                          \
	RELEASE_UNLESS(false, call, key)

/* For a call that returns no result, so it cannot report an invalid free. KEY may be NULL. */
#define VERB_DISPOSE(call, made, key, size)                                                 \
	struct freeing freeing;                                                             \
	site.space = SPACE_CL_USM;                                                          \
	record_releasing(&site, number_of(key), &freeing);                                  \
	record_call_freeing(&freeing);                                                      \
	call;                                                                               \
	record_call_done();                                                                 \
	record_released(hook, &freeing, OUTCOME_DONE, LEDGER_NO_ANSWER);

/* ---- the wrappers ---- */

/* The result of a call whose function is missing: its symbol is an unresolved weak reference. */
#define MISSING(returns)                                                                    \
	_Generic((returns *)NULL, cl_int *: CL_INVALID_OPERATION, void *: (void)0, default: NULL)

#define WRAPPER(symbol, find, returns, call, verb, made, key, size)                         \
	{                                                                                   \
		WRAP_BEGIN(symbol, find, SPACE_OBJECTS);                                    \
		if (__builtin_expect(!route.real, 0))                                       \
			return MISSING(returns);                                            \
		INSIDE(hook, route);                                                        \
		if (__builtin_expect(!route.record, 0))                                     \
			return call;                                                        \
		VERB_##verb(call, made, key, size)                                          \
	}

#define HOOK(symbol, returns, parameters, arguments, verb, made, kind, key, size)           \
	EXPORT returns symbol parameters                                                    \
	WRAPPER(symbol, resolve_direct, returns,                                            \
		DRIVER_CALL(route.real, returns(*) parameters, arguments), verb, made, key, size) \
	static returns looked_up_##symbol parameters                                        \
	WRAPPER(symbol, resolve_driver, returns,                                            \
		DRIVER_CALL(route.real, returns(*) parameters, arguments), verb, made, key, size)
#define ROWS_OF "interpose/opencl/opencl_rows.def"
#include "interpose/dispatch/hooks.def"

void *const opencl_wrappers[] = {
#define HOOK(symbol, ...) [HOOK_##symbol - HOOK_FIRST_OPENCL] = (void *)looked_up_##symbol,
#define HAND(symbol, ...) [HOOK_##symbol - HOOK_FIRST_OPENCL] = (void *)looked_up_##symbol,
#define ROWS_OF "interpose/opencl/opencl_rows.def"
#include "interpose/dispatch/hooks.def"
};
