/* SPDX-License-Identifier: MIT
 *
 * CUDA's wrappers, two for each row: an exported one, for callers linked to the name, and one that
 * lookups return. hooks.def describes each verb. A verb is a short macro here, which calls the
 * driver and the functions that record. Verbs use the variables that WRAP_BEGIN declares: hook,
 * route and call. ALLOC_ASYNC and FREE_ASYNC also use the parameter hStream of their rows,
 * MAKE_PHYSICAL uses prop.
 */
#include "interpose/base/submit_epoch.h"
#include "interpose/block/blocks.h"
#include "interpose/block/driver_growth.h"
#include "interpose/block/limit.h"
#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/cuda/wrappers/cuda_graph.h"
#include "interpose/cuda/wrappers/first_use.h"
#include "interpose/guard/copies.h"
#include "interpose/guard/guard_rows.h"

/* Used in the rows: the call succeeded. */
#define CU_OK (r == CUDA_SUCCESS)

/* The pool's version of the row's call if it serves this one, otherwise DRIVER_CALL. WITH adds what
 * the pool's version needs to the row's arguments. */
#define POOL_OR(symbol, with, arguments, driver_call)                                       \
	(call.driver ? pool_##symbol with arguments : (driver_call))
#define WITH_CALL(...) (&call, __VA_ARGS__)
#define WITH_FREEING(...) (&call, &freeing, __VA_ARGS__)

/* ---- calls that make a block ---- */

/* Records a new block. If the pool allocated it, the pool has just read the thread's current
 * context. */
static HOT void record_granted(struct call *call, uint64_t address, uint64_t bytes)
{
	if (call->inside)
		record_made_pooled(call, address, bytes, thread_self.owner, thread_self.device);
	else
		cuda_record_made(call, address, bytes);
}

/* The driver stores address 0 when it is out of memory (seen on an H200). A refused call does the
 * same. */
#define NO_ADDRESS(at, ...)                                                                 \
	if (at)                                                                             \
		*(at) = 0

/* If a limit refuses the call, runs ON_REFUSAL and returns out of memory without calling the
 * driver. */
#define REFUSE(device, size, on_refusal)                                                    \
	if (LIMITS_REFUSE(&call, device, size)) {                                           \
		on_refusal;                                                                 \
		return CUDA_ERROR_OUT_OF_MEMORY;                                            \
	}

/* RECORD is an expression that records the new block. */
#define GRANT_ON(device, driver_call, made, record, size, on_refusal)                       \
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;                                              \
	REFUSE(device, size, on_refusal)                                                    \
	CUDA_CALL_TWICE(r, driver_call, device);                                            \
	if (made)                                                                           \
		record;                                                                     \
	else                                                                                \
		cuda_note_refusal(&call, r,                                                 \
				  (device) == LIMITS_NO_DEVICE ? LIMITS_CURRENT : (device), \
				  (uint64_t)(size));                                        \
	limits_done();                                                                      \
	return r;
#define GRANT(driver_call, made, record, key, size, on_refusal)                             \
	GRANT_ON(LIMITS_CURRENT, driver_call, made,                                         \
		 record(&call, (uint64_t)(key), (uint64_t)(size)), size, on_refusal)

#define VERB_ALLOC(symbol, driver_call, arguments, made, key, size)                         \
	GRANT(driver_call, made, cuda_record_made, key, size, NO_ADDRESS arguments)

#define VERB_ALLOC_POOLED(symbol, driver_call, arguments, made, key, size)                  \
	pool_may_serve(&call, route.real, false);                                           \
	GRANT(POOL_OR(symbol, WITH_CALL, arguments, driver_call), made, record_granted, key, size, \
	      NO_ADDRESS arguments)

#define VERB_MAKE(symbol, driver_call, arguments, made, key, size)                          \
	call.space = SPACE_CUDA_HANDLE;                                                     \
	GRANT(driver_call, made, cuda_record_made, key, size, (void)0)

#define VERB_REGISTER(symbol, driver_call, arguments, made, key, size)                      \
	call.space = SPACE_REGISTERED;                                                      \
	GRANT(driver_call, made, cuda_record_made, key, size, (void)0)

/* A captured call takes no memory yet, so no limit on bytes refuses it. Only a limit needs to know
 * before the call: see cuda_is_captured(). */
#define VERB_ALLOC_ASYNC(symbol, driver_call, arguments, made, key, size)                   \
	bool captured = limits_on() && cuda_is_captured(hook, hStream);                     \
	GRANT_ON(captured ? LIMITS_NO_DEVICE : LIMITS_CURRENT, SUBMITTED(driver_call), made, \
		 cuda_graph_captured(&call, hStream, (uint64_t)(key), (uint64_t)(size))     \
			 ? (void)0                                                          \
			 : cuda_record_async(&call, (uint64_t)(key), (uint64_t)(size)),     \
		 size, NO_ADDRESS arguments)

#define MAKE_ON(device, driver_call, made, record, size)                                    \
	call.space = SPACE_CUDA_HANDLE; /* RECORD uses its own space */                     \
	GRANT_ON(device, driver_call, made, record, size, (void)0)

#define VERB_MAKE_BY(symbol, driver_call, arguments, made, record, size)                    \
	MAKE_ON(LIMITS_NO_DEVICE, driver_call, made, record, size)
#define VERB_MAKE_PHYSICAL(symbol, driver_call, arguments, made, record, size)              \
	MAKE_ON(vmm_device_of(prop), driver_call, made, record, size)

/* ---- calls that end one ---- */

static HOT void freeing_begins(struct call *call, uint64_t address, struct freeing *ret)
{
	struct block_hint *hint = NULL;

	if (!call->driver) {
		record_freeing(call, address, ret);
		return;
	}
	if (address && (call->inside = call_begin(call)))
		hint = pool_block_hint(call->inside, address);
	record_freeing_pooled(call, address, hint, ret);
}

/* BEGIN moves the block from the table into `freeing`; ENDED records the result of the call. */
#define END(begin, driver_call, ended)                                                      \
	struct freeing freeing;                                                             \
	CUresult r;                                                                         \
	begin;                                                                              \
	WRAP_CALL_FREEING(r, driver_call, &freeing);                                        \
	ended(&call, &freeing, cuda_free_outcome(r, &freeing), (int)r);                     \
	return r;

#define VERB_FREE(symbol, driver_call, arguments, made, key, size)                          \
	END(record_freeing(&call, (uint64_t)(key), &freeing), driver_call, record_freed)

#define VERB_FREE_POOLED(symbol, driver_call, arguments, made, key, size)                   \
	pool_may_serve(&call, route.real, true);                                            \
	END(freeing_begins(&call, (uint64_t)(key), &freeing),                               \
	    POOL_OR(symbol, WITH_FREEING, arguments, driver_call), record_freed)

#define VERB_UNREGISTER(symbol, driver_call, arguments, made, key, size)                    \
	call.space = SPACE_REGISTERED;                                                      \
	END(record_freeing(&call, (uint64_t)(key), &freeing), driver_call, record_freed)

/* record_releasing() checks for an invalid release before the call: see releasing_dead(). */
#define VERB_DROP(symbol, driver_call, arguments, made, key, size)                          \
	call.space = SPACE_CUDA_HANDLE;                                                     \
	END(record_releasing(&call, (uint64_t)(uintptr_t)(key), &freeing), driver_call,     \
	    record_released)

/* The call does not stay inside the recorder: the pool asks the driver about the stream first. */
#define VERB_FREE_ASYNC(symbol, driver_call, arguments, made, key, size)                    \
	pool_may_serve(&call, route.real, false);                                           \
	END(record_freeing(&call, (uint64_t)(key), &freeing),                               \
	    SUBMITTED(POOL_OR(symbol, WITH_FREEING, arguments, driver_call)), FREED)
#define FREED(call, freeing, outcome, r) freed_on_stream(call, hStream, freeing, outcome, r)

/* If CALL is still inside the recorder, the pool served it, and nothing was captured. */
static void freed_on_stream(struct call *call, CUstream stream, struct freeing *freeing,
			    enum outcome outcome, int r)
{
	if (!r && !call->inside && cuda_graph_captured_free(call, stream, freeing->address))
		record_kept(freeing); /* a launch of the graph will free the block */
	else
		record_freed(call, freeing, outcome, r);
}

#define VERB_DROP_BY(symbol, driver_call, arguments, made, end, size)                       \
	call.space = SPACE_CUDA_HANDLE;                                                     \
	return end;

/* ---- calls that make no block ---- */

#define NUMBER(handle) ((uint64_t)(uintptr_t)(handle))

/* Returns the result of CALL and records that work was submitted. */
#define SUBMITTED(driver_call)                                                              \
	({                                                                                  \
		CUresult answer = (driver_call);                                            \
		submits_note();                                                             \
		answer;                                                                     \
	})

#define VERB_WAIT(symbol, driver_call, arguments, made, key, size) return driver_call;
#define VERB_NODE(symbol, driver_call, arguments, made, key, size) return driver_call;

#define VERB_SUBMIT(symbol, driver_call, arguments, made, key, size) return SUBMITTED(driver_call);

#define USE_FIRST(driver_call, made, handle)                                                \
	struct first_use first;                                                             \
	CUresult r;                                                                         \
	bool is_first = first_use_begin(&first, NUMBER(handle));                            \
	r = (driver_call);                                                                  \
	if (__builtin_expect(is_first, 0))                                                  \
		first_use_end(&call, &first, made);                                         \
	return r;

#define VERB_FIRST_USE(symbol, driver_call, arguments, made, handle, size)                  \
	USE_FIRST(driver_call, made, handle)
#define VERB_LAUNCH(symbol, driver_call, arguments, made, handle, size)                     \
	USE_FIRST(SUBMITTED(driver_call), made, handle)

/* Declares R and `growth`: the result of DRIVER_CALL, and what the driver took of DEVICE in it. */
#define MEASURE(driver_call, device)                                                        \
	struct driver_growth growth;                                                        \
	CUresult r;                                                                         \
	driver_growth_begin(&growth, API_CUDA, (int)(device));                              \
	CUDA_CALL_TWICE(r, driver_call, LIMITS_CURRENT);                                    \
	driver_growth_end(&growth)

#define VERB_MARK(symbol, driver_call, arguments, made, device, which)                      \
	MEASURE(driver_call, device);                                                       \
	if (made)                                                                           \
		cuda_record_driver_growth(&call, (int)(device), &growth, (uint32_t)(which)); \
	return cuda_note_refusal(&call, r, (device) < 0 ? LIMITS_CURRENT : (int)(device), 0);

/* ---- objects that are not memory ---- */

#define VERB_MAKE_OBJECT(symbol, driver_call, arguments, made, handle, references)          \
	CUresult r;                                                                         \
	CUDA_CALL_TWICE(r, driver_call, LIMITS_CURRENT);                                    \
	if (made)                                                                           \
		cuda_record_object(&call, NUMBER(handle), references, -1);                  \
	return cuda_note_refusal(&call, r, LIMITS_CURRENT, 0);

#define VERB_MEASURE_OBJECT(symbol, driver_call, arguments, made, handle, references)       \
	MEASURE(driver_call, -1);                                                           \
	if (made) {                                                                         \
		driver_cost_record(&call, growth.device, &growth, 0);                       \
		cuda_record_object(&call, NUMBER(handle), references, -1);                  \
	}                                                                                   \
	return cuda_note_refusal(&call, r, LIMITS_CURRENT, 0);

#define VERB_MARK_OBJECT(symbol, driver_call, arguments, made, handle, device)              \
	MEASURE(driver_call, device);                                                       \
	if (made) {                                                                         \
		cuda_record_driver_growth(&call, (int)(device), &growth, 0);                \
		cuda_record_object(&call, NUMBER(handle), 1, (int)(device));                \
	}                                                                                   \
	return cuda_note_refusal(&call, r, (device) < 0 ? LIMITS_CURRENT : (int)(device), 0);

#define VERB_RETAIN_OBJECT(symbol, driver_call, arguments, made, handle, count)             \
	CUresult r;                                                                         \
	WRAP_CALL(r, driver_call);                                                          \
	if (made)                                                                           \
		cuda_object_retained(&call, NUMBER(handle), count);                         \
	return r;

#define VERB_DROP_OBJECT(symbol, driver_call, arguments, made, handle, count)               \
	struct freeing freeing;                                                             \
	uint32_t removed = cuda_object_ending(&call, NUMBER(handle), count, &freeing);      \
	CUresult r;                                                                         \
	WRAP_CALL_FREEING(r, driver_call, &freeing);                                        \
	cuda_object_ended(&call, removed, &freeing, r);                                     \
	return r;

/* ---- the wrappers ---- */

/* CALL is DRIVER_CALL, or what a guarded wrapper does in its place. */
#define WRAPPER(caller_, symbol, find, type, arguments, call_, verb, made, key, size)       \
	{                                                                                   \
		WRAP_BEGIN_FOR(caller_, symbol, find, SPACE_MEMORY);                        \
		if (__builtin_expect(!route.real, 0)) /* guarded, or an undefined weak symbol */ \
			return WRAP_MISSING(type, arguments, CUDA_ERROR_NOT_FOUND);         \
		if (__builtin_expect(!route.record, 0))                                     \
			return DRIVER_CALL(route.real, type, arguments);                    \
		VERB_##verb(symbol, call_, arguments, made, key, size)                      \
	}

#define GUARDED_CALL(symbol, verb, type, arguments, key)                                    \
	({                                                                                  \
		const uint32_t guard_ref = GUARD_FIRST(verb, key);                          \
		const CUresult guard_result =                                               \
			GUARD_CALL(symbol, DRIVER_CALL(route.real, type, arguments), arguments); \
		if (__builtin_expect(guard_ref != 0, 0))                                    \
			guard_answered(guard_ref, (int)guard_result);                       \
		if (__builtin_expect(guard_result != CUDA_SUCCESS, 0))                      \
			guard_failed(&call, guard_result);                                  \
		guard_result;                                                               \
	})

/* Defines SYMBOL. It passes on the calls of verbs that record nothing without a guard, which keeps
 * `direct` empty (hooks_guard()). linked_SYMBOL has the other paths. */
#define EXPORTED(symbol, verb, ...)                                                         \
	GUARD_JOIN(EXPORTED_, GUARD_OF(GUARD_SECOND, PASSES_##verb))(symbol, verb, __VA_ARGS__)
#define PASSES_WAIT ~, PASSING
#define PASSES_NODE ~, PASSING
#define PASSES_SUBMIT ~, PASSING
#define PASS_WAIT(driver_call) (driver_call)
#define PASS_NODE(driver_call) (driver_call)
#define PASS_SUBMIT(driver_call)                                                            \
	(config.pool == OPTION_POOL_OFF ? (driver_call) : SUBMITTED(driver_call))
#define EXPORTED_0(symbol, verb, returns, parameters, arguments, made, key, size)           \
	EXPORT returns symbol parameters                                                    \
	WRAPPER(CALLER, symbol, resolve_direct, returns(*) parameters, arguments,           \
		DRIVER_CALL(route.real, returns(*) parameters, arguments), verb, made, key, size)
#define EXPORTED_PASSING(symbol, verb, returns, parameters, arguments, made, key, size)     \
	static COLD returns linked_##symbol WITH_LINKED parameters                          \
	WRAPPER(linked_from, symbol, resolve_direct, returns(*) parameters, arguments,      \
		DRIVER_CALL(route.real, returns(*) parameters, arguments), verb, made, key, size) \
	EXPORT returns symbol parameters                                                    \
	{                                                                                   \
		void *next = atomic_load_explicit(&hooks[HOOK_##symbol].direct,             \
						  memory_order_acquire);                    \
		if (__builtin_expect(!next, 0)) {                                           \
			CUresult r = linked_##symbol WITH_CALLER arguments;                 \
			__asm__ volatile(""); /* no tail call: CALLER is in this frame */   \
			return r;                                                           \
		}                                                                           \
		return PASS_##verb(DRIVER_CALL(next, returns(*) parameters, arguments));    \
	}
#define WITH_LINKED(...) (const struct caller *linked_from, __VA_ARGS__)
#define WITH_CALLER(...) (CALLER, __VA_ARGS__)

/* Each row becomes up to three functions. SYMBOL is exported: callers that are linked to the name
 * call it. looked_up_SYMBOL is what gpuleak returns from a lookup of the name, for example from
 * dlsym(). guarded_SYMBOL takes its place if a level of the guard needs the call. */
#define HOOK(symbol, returns, parameters, arguments, verb, made, kind, key, size)           \
	EXPORTED(symbol, verb, returns, parameters, arguments, made, key, size)             \
	static returns looked_up_##symbol parameters                                        \
	WRAPPER(CALLER, symbol, resolve_driver, returns(*) parameters, arguments,           \
		DRIVER_CALL(route.real, returns(*) parameters, arguments), verb, made, key, size) \
	__attribute__((unused)) static returns guarded_##symbol parameters                  \
	WRAPPER(CALLER, symbol, resolve_guarded, returns(*) parameters, arguments,          \
		GUARDED_CALL(symbol, verb, returns(*) parameters, arguments, key), verb,    \
		made, key, size)
#define ROWS_OF "interpose/cuda/cuda_rows.def"
#include "interpose/dispatch/hooks.def"

void *const cuda_wrappers[] = {
#define HOOK(symbol, ...) [HOOK_##symbol - HOOK_FIRST_CUDA] = (void *)looked_up_##symbol,
#define HAND(symbol, ...) [HOOK_##symbol - HOOK_FIRST_CUDA] = (void *)looked_up_##symbol,
#define ROWS_OF "interpose/cuda/cuda_rows.def"
#include "interpose/dispatch/hooks.def"
};

const struct guarded_wrapper cuda_guarded[] = {
#define HOOK(symbol, returns, parameters, arguments, verb, ...)                             \
	[HOOK_##symbol - HOOK_FIRST_CUDA] = GUARDED_WRAPPER(symbol, GUARD_LEVELS_OF(symbol, verb)),
#define HAND(symbol, ...)                                                                   \
	[HOOK_##symbol - HOOK_FIRST_CUDA] = { GUARD_IF(symbol, (void *)guarded_##symbol,    \
						       GUARD_LEVELS(symbol)) },
#define ROWS_OF "interpose/cuda/cuda_rows.def"
#include "interpose/dispatch/hooks.def"
};
