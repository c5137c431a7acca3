/* SPDX-License-Identifier: MIT
 *
 * OpenCL's wrappers, two for each row: an exported one, for callers linked to the name, and one
 * that lookups return. hooks.def describes each verb. A verb is a short macro here, which calls the
 * driver and the functions that record. Verbs use the variables that WRAP_BEGIN declares, and the
 * parameters of their rows by the names of OpenCL's specification: CREATE, BUFFER, SHARE and MAP
 * use errcode_ret; BUFFER also flags and host_ptr; SHARE and LEND context; COMMAND, MAP and UNMAP
 * command_queue, num_events_in_wait_list and event_wait_list; UNMAP also mapped_ptr.
 */
#include "interpose/base/submit_epoch.h"
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
#include "interpose/guard/copies.h"
#include "interpose/guard/guard_rows.h"

/* Used in the rows: what the pool, if it is on, does or returns. */
#define IF_POOL_DO(expression) (opencl_pool_is_on() ? (expression) : (void)0)
#define IF_POOL(expression) (opencl_pool_is_on() && (expression))

/* Used in the rows: the call succeeded. */
#define CL_OK (r == CL_SUCCESS)
#define CL_MADE (r != NULL)
#define CL_DONE 1

static HOT uint64_t cl_number(const void *handle)
{
	return (uint64_t)(uintptr_t)handle;
}

/* R = CALL. If the call failed and RELIEVE, a function of OpenCL's pool, returned memory to the
 * driver, calls once more. */
#define OPENCL_CALL_TWICE(r, driver_call, made, relieve)                                    \
	struct ledger_pool *relieved;                                                       \
	record_call();                                                                      \
	(r) = (driver_call);                                                                \
	if (__builtin_expect(!(made), 0) && opencl_pool_is_on() && (relieved = (relieve))) { \
		inside_again();                                                             \
		(r) = (driver_call);                                                        \
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

/* Records CALL, which wanted BYTES on DEVICE, if the code of its failure means that memory ran out.
 * A caller that requests no code gives no reason, so its call is not recorded. */
static COLD void note_refusal(const struct call *call, const cl_int *errcode_ret, int device,
			      uint64_t bytes)
{
	if (errcode_ret && (*errcode_ret == CL_MEM_OBJECT_ALLOCATION_FAILURE ||
			    (*errcode_ret == CL_OUT_OF_RESOURCES && bytes)))
		limits_record_refusal(call, device, bytes);
}

/* KEPT is the cached buffer that the pool returns for this call, or NULL. RECORD is an expression
 * that records the new object. */
#define CREATE_BY(driver_call, made, context, size, kept, record)                           \
	cl_mem r = NULL;                                                                    \
	if (LIMITS_REFUSE(&call, opencl_device_of(context), size))                          \
		return refuse(errcode_ret, CL_MEM_OBJECT_ALLOCATION_FAILURE);               \
	if (!opencl_pool_is_on() || !(r = (kept))) {                                        \
		OPENCL_CALL_TWICE(r, driver_call, made, opencl_pool_relieve(code_of(errcode_ret))) \
		if (made)                                                                   \
			record;                                                             \
		else                                                                        \
			note_refusal(&call, errcode_ret, opencl_device_of(context),         \
				     (uint64_t)(size));                                     \
	}                                                                                   \
	MADE(r)

#define MADE(r)                                                                             \
	limits_done();                                                                      \
	return r;

#define VERB_CREATE(driver_call, made, context, size)                                       \
	CREATE_BY(driver_call, made, context, size, NULL,                                   \
		  opencl_record_made(&call, r, (context), (uint64_t)(size)))

static void record_buffer(struct call *call, cl_mem made, cl_context context,
			  cl_mem_flags flags, size_t size, void *host_ptr)
{
	if (!opencl_pool_is_on() && !host_ptr && submits_certain())
		opencl_record_buffer(call, made, context, size);
	else if (!opencl_pool_created(call, made, context, flags, size, host_ptr))
		opencl_record_made(call, made, context, size);
}

#define VERB_BUFFER(driver_call, made, context, size)                                       \
	CREATE_BY(driver_call, made, context, size,                                         \
		  opencl_pool_alloc(&call, context, flags, size, host_ptr, errcode_ret),    \
		  record_buffer(&call, r, context, flags, size, host_ptr))

/* For calls that return an address of shared memory. ERRCODE is where the code of a refusal is
 * stored, or NULL. */
#define LEND_BY(driver_call, made, device, size, errcode)                                   \
	void *r;                                                                            \
	call.space = SPACE_CL_USM;                                                          \
	if (LIMITS_REFUSE(&call, (device), size))                                           \
		return refuse(errcode, CL_OUT_OF_RESOURCES);                                \
	OPENCL_CALL_TWICE(r, driver_call, made, relieved_for(size))                         \
	if (made)                                                                           \
		record_made(&call, cl_number(r), (size), cl_number(context), (device), 0);  \
	else                                                                                \
		note_refusal(&call, errcode, (device), (size));                             \
	MADE(r)

/* A call for 0 bytes fails however much memory is free, so the pool returns none. */
static COLD struct ledger_pool *relieved_for(size_t size)
{
	return size ? opencl_pool_relieve(CL_MEM_OBJECT_ALLOCATION_FAILURE) : NULL;
}

#define VERB_LEND(driver_call, made, device, size) LEND_BY(driver_call, made, device, size, NULL)
#define VERB_SHARE(driver_call, made, device, size)                                         \
	LEND_BY(driver_call, made, device, size, errcode_ret)

/* ---- calls that make another object ---- */

static void record_queue(struct call *call, cl_command_queue queue, cl_context context)
{
	opencl_record_object(call, queue, context);
	if (opencl_pool_is_on())
		opencl_pool_queue_made(context, queue);
}

static void record_user_event(struct call *call, cl_event event, cl_context context)
{
	opencl_record_object(call, event, context);
	user_event_made(call, event);
}

#define VERB_OBJECT(driver_call, made, context, size)                                       \
	VERB_OBJECT_BY(driver_call, made, opencl_record_object(&call, r, (context)), size)

/* RECORD is an expression that records the new object. */
#define VERB_OBJECT_BY(driver_call, made, record, size)                                       \
	__typeof__(driver_call) r;                                                          \
	WRAP_CALL(r, driver_call);                                                          \
	if (made)                                                                           \
		record;                                                                     \
	return r;

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
#define COMMAND(driver_call, made, event, code)                                             \
	__typeof__(driver_call) r;                                                          \
	OPENCL_CALL_TWICE(r, driver_call, made, opencl_pool_relieve_command(code))          \
	opencl_pool_submitted();                                                            \
	if ((event) && (made))                                                              \
		opencl_record_object(&call, *(event), NULL);

#define RECORD_BEHIND(made, event, used)                                                    \
	if (user_events_are_open() && (made)) {                                             \
		const struct uses uses = (used);                                            \
		const struct command command = {                                            \
			command_queue, num_events_in_wait_list, event_wait_list,            \
			(event) ? *(event) : NULL, uses.count, uses.objects, uses.kernel,   \
		};                                                                          \
		user_events_enqueued(&call, &command);                                      \
	}

/* If the caller wants no event and nothing has to be recorded, these wrappers are a tail call to
 * the driver. */
#define VERB_EVENT(driver_call, made, event, size)                                          \
	if (__builtin_expect(!(event), 1) && !opencl_pool_is_on())                          \
		return driver_call;                                                         \
	COMMAND(driver_call, made, event, r)                                                \
	return r;

/* Before the driver's call: see opencl_use(). */
#define USE(used)                                                                           \
	do {                                                                                \
		const struct uses uses = (used);                                            \
		opencl_use(uses.count, uses.objects);                                       \
	} while (0)

#define VERB_COMMAND(driver_call, made, event, used)                                        \
	USE(used);                                                                          \
	if (__builtin_expect(!(event), 1) && !opencl_pool_is_on() && !user_events_are_open()) \
		return driver_call;                                                         \
	COMMAND(driver_call, made, event, r)                                                \
	RECORD_BEHIND(made, event, used)                                                    \
	return r;

#define VERB_MAP(driver_call, made, event, used)                                            \
	USE(used);                                                                          \
	COMMAND(driver_call, made, event, r || !errcode_ret ? CL_SUCCESS : *errcode_ret)    \
	RECORD_BEHIND(made, event, used)                                                    \
	if (made)                                                                           \
		record_mapped(&call, cl_number((used).objects[0]), cl_number(r));           \
	return r;

#define VERB_UNMAP(driver_call, made, event, used)                                          \
	struct unmapping unmapping;                                                         \
	USE(used);                                                                          \
	record_unmapping(&call, cl_number((used).objects[0]), cl_number(mapped_ptr),        \
			 &unmapping);                                                       \
	COMMAND(driver_call, made, event, r)                                                \
	if (!(made))                                                                        \
		record_unmapping_failed(&unmapping);                                        \
	RECORD_BEHIND(made, event, used)                                                    \
	return r;

/* ---- calls that change recorded state ---- */

#define AFTER(driver_call, made, record)                                                    \
	cl_int r = (driver_call);                                                           \
	if (made)                                                                           \
		record;                                                                     \
	return r;

/* RECORD is an expression that records what the call changed. */
#define VERB_AFTER(driver_call, made, record, size) AFTER(driver_call, made, record)

/* POOL is what the pool does then, or 0. */
#define VERB_RETAIN(driver_call, made, key, pool)                                           \
	cl_int r = (driver_call);                                                           \
	if (made) {                                                                         \
		record_retained(&call, cl_number(key));                                     \
		(void)(pool);                                                               \
	}                                                                                   \
	return r;

/* The driver still has one reference of a buffer that the pool caches, and would retain it. So the
 * pool handles the call for such a buffer. */
#define VERB_RETAIN_MEM(driver_call, made, object, size)                                    \
	cl_int r;                                                                           \
	bool dealt = opencl_pool_is_on() && opencl_pool_retain((object), &r);               \
	if (!dealt)                                                                         \
		r = (driver_call);                                                          \
	if (made)                                                                           \
		record_retained(&call, cl_number(object));                                  \
	else if (opencl_pool_is_on() && !dealt)                                             \
		opencl_pool_retain_failed(object);                                          \
	return r;

#define VERB_FINISH(driver_call, made, queue, size)                                         \
	uint64_t epoch;                                                                     \
	if (!opencl_pool_is_on())                                                           \
		return driver_call;                                                         \
	epoch = opencl_pool_finishing();                                                    \
	AFTER(driver_call, made, opencl_pool_finished((queue), epoch))

/* ---- calls that end a reference ---- */

/* DEALT: OpenCL's pool handled the call, so the driver is not called. */
#define RELEASE_UNLESS(dealt, driver_call, key)                                             \
	struct freeing freeing;                                                             \
	cl_int r = CL_SUCCESS;                                                              \
	record_releasing(&call, cl_number(key), &freeing);                                  \
	if (freeing.unused)                                                                 \
		opencl_release_unused(&freeing);                                            \
	record_call_freeing(&freeing);                                                      \
	if (!(dealt))                                                                       \
		r = (driver_call);                                                          \
	record_call_freed(&freeing);                                                        \
	record_released(&call, &freeing, opencl_outcome(r), (int)r);                        \
	return r;

/* POOL is true if the pool handled the call; 0 if the pool never does. */
#define VERB_RELEASE(driver_call, made, key, pool)                                          \
	RELEASE_UNLESS(pool, driver_call, key)
#define VERB_RELEASE_CONTEXT(driver_call, made, key, size)                                  \
	if (opencl_pool_is_on())                                                            \
		opencl_pool_context_releasing(key);                                         \
	RELEASE_UNLESS(false, driver_call, key)
#define VERB_UNSHARE(driver_call, made, key, size)                                          \
	call.space = SPACE_CL_USM;                                                          \
	RELEASE_UNLESS(false, driver_call, key)

/* For a call that returns no result: the driver cannot report that the free was invalid. KEY, the
 * memory to free, may be NULL. */
#define VERB_DISPOSE(driver_call, made, key, size)                                          \
	struct freeing freeing;                                                             \
	call.space = SPACE_CL_USM;                                                          \
	record_releasing(&call, cl_number(key), &freeing);                                  \
	record_call_freeing(&freeing);                                                      \
	driver_call;                                                                        \
	record_call_done();                                                                 \
	record_released(&call, &freeing, OUTCOME_DONE, LEDGER_NO_ANSWER);

/* ---- the wrappers ---- */

/* CALL is DRIVER_CALL, or what a guarded wrapper does in its place. */
#define WRAPPER(symbol, find, returns, type, arguments, call_, verb, made, key, size)       \
	{                                                                                   \
		WRAP_BEGIN(symbol, find, SPACE_CL_HANDLE);                                    \
		if (__builtin_expect(!route.real, 0))                                       \
			return WRAP_MISSING(type, arguments, OPENCL_MISSING(returns));      \
		INSIDE(hook, route);                                                        \
		if (__builtin_expect(!route.record, 0))                                     \
			return DRIVER_CALL(route.real, type, arguments);                    \
		VERB_##verb(call_, made, key, size)                                         \
	}

#define GUARDED_CALL(symbol, type, arguments)                                               \
	GUARD_CALL(symbol, DRIVER_CALL(route.real, type, arguments), arguments)

/* Each row becomes up to three functions. SYMBOL is exported: callers that are linked to the name
 * call it. looked_up_SYMBOL is what gpuleak returns from a lookup of the name, for example from
 * dlsym(). guarded_SYMBOL takes its place if a level of the guard needs the call. */
#define HOOK(symbol, returns, parameters, arguments, verb, made, kind, key, size)           \
	EXPORT returns symbol parameters                                                    \
	WRAPPER(symbol, resolve_direct, returns, returns(*) parameters, arguments,          \
		DRIVER_CALL(route.real, returns(*) parameters, arguments), verb, made, key, size) \
	static returns looked_up_##symbol parameters                                        \
	WRAPPER(symbol, resolve_driver, returns, returns(*) parameters, arguments,          \
		DRIVER_CALL(route.real, returns(*) parameters, arguments), verb, made, key, size) \
	GUARD_IF(symbol, static returns guarded_##symbol parameters                         \
		 WRAPPER(symbol, resolve_guarded, returns, returns(*) parameters, arguments, \
			 GUARDED_CALL(symbol, returns(*) parameters, arguments), verb, made, key, \
			 size))
#define ROWS_OF "interpose/opencl/opencl_rows.def"
#include "interpose/dispatch/hooks.def"

void *const opencl_wrappers[] = {
#define HOOK(symbol, ...) [HOOK_##symbol - HOOK_FIRST_OPENCL] = (void *)looked_up_##symbol,
#define HAND(symbol, ...) [HOOK_##symbol - HOOK_FIRST_OPENCL] = (void *)looked_up_##symbol,
#define ROWS_OF "interpose/opencl/opencl_rows.def"
#include "interpose/dispatch/hooks.def"
};

const struct guarded_wrapper opencl_guarded[] = {
#define HOOK(symbol, ...)                                                                   \
	[HOOK_##symbol - HOOK_FIRST_OPENCL] = { GUARD_IF(symbol, (void *)guarded_##symbol,  \
							 GUARD_LEVELS(symbol)) },
#define HAND HOOK
#define ROWS_OF "interpose/opencl/opencl_rows.def"
#include "interpose/dispatch/hooks.def"
};
