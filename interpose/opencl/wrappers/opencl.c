/* SPDX-License-Identifier: MIT
 *
 * cl_mem objects, and the OpenCL calls that a row of opencl.def cannot describe: the extension
 * lookups, and SVM freed by a queue.
 */
#include "interpose/dispatch/loader.h"
#include "interpose/block/blocks.h"
#include "interpose/block/wrap.h"
#include "interpose/opencl/opencl_driver.h"
#include "interpose/opencl/wrappers/opencl_calls.h"

#include "interpose/base/submit_epoch.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/guard/guard.h"
#include "interpose/guard/patterns.h"
#include "interpose/guard/guard_rows.h"
#include "interpose/opencl/wrappers/opencl_rows.h"
#include "interpose/opencl/pool/opencl_pool.h"
#include "interpose/dispatch/resolve.h"

typedef void CL_CALLBACK destroyed(cl_mem, void *);

void opencl_record_context(struct call *call, cl_context context)
{
	opencl_context_made(context);
	opencl_record_object(call, context, NULL);
	opencl_pool_context_made(context);
}

/* May run on any thread. NVIDIA's driver may call this after it has reused the handle for another
 * object (seen on an H200). So NUMBER identifies the destroyed object. */
static void CL_CALLBACK on_destroyed(cl_mem object, void *number)
{
	record_destroyed(SPACE_CL_HANDLE, (uint64_t)(uintptr_t)object, (uint64_t)(uintptr_t)number);
}

/* Registers on_destroyed() and returns its number, or 0 on failure. Callbacks run in reverse order
 * of registration. Ours is registered before the application registers one, so it runs last. */
static uint64_t watch(cl_mem object)
{
	uintptr_t number = (uintptr_t)opencl_number();

	return opencl_watch(object, on_destroyed, (void *)number) ? number : 0;
}

void opencl_watch_used(cl_mem object, uint64_t watch)
{
	if (watch && !opencl_watch(object, on_destroyed, (void *)(uintptr_t)watch))
		record_unwatched(SPACE_CL_HANDLE, (uint64_t)(uintptr_t)object, watch);
}

void opencl_use(cl_uint count, const cl_mem *objects)
{
	for (cl_uint i = 0; objects && i < count; i++) {
		struct recorder *recorder = objects[i] ? recorder_enter() : NULL;
		uint64_t watch = 0;

		if (recorder) {
			record_use(recorder, SPACE_CL_HANDLE, (uint64_t)(uintptr_t)objects[i],
				   &watch);
			recorder_leave();
			opencl_watch_used(objects[i], watch);
		} else if (objects[i]) {
			submits_unknown();
		}
	}
}

/* The driver counts references that callers took past gpuleak, too. */
void opencl_release_unused(struct freeing *freeing)
{
	cl_mem object = (cl_mem)(uintptr_t)freeing->address;
	cl_uint references = 0;

	if (submits_certain() && opencl_ask_object(object, CL_MEM_REFERENCE_COUNT, &references,
						   sizeof(references)) && references == 1)
		return;
	if (opencl_watch(object, on_destroyed, (void *)(uintptr_t)freeing->unused))
		record_watch_release(freeing);
}

void opencl_record_buffer(struct call *called, cl_mem made, cl_context context, uint64_t bytes)
{
	struct call call = *called;

	call.watched = opencl_number() | WATCHED_LATER;
	record_made(&call, (uint64_t)(uintptr_t)made, bytes, (uint64_t)(uintptr_t)context,
		    opencl_device_of(context), 0);
}

/* Returns true if an object that HOOK makes may be part of another object's memory. */
static bool may_have_parent(const struct hook *hook)
{
	return hook == &hooks[HOOK_clCreateSubBuffer] || hook == &hooks[HOOK_clCreateImage] ||
	       hook == &hooks[HOOK_clCreateImageWithProperties];
}

void opencl_record_made(struct call *called, cl_mem made, cl_context context, uint64_t bytes)
{
	struct call watched = *called, *call = &watched;
	bool pool = opencl_pool_is_on();
	cl_mem parent = NULL;

	if (call->hook != &hooks[HOOK_clSVMAlloc]) /* returns an address and no object */
		call->watched = watch(made);
	if (may_have_parent(call->hook) || pool)
		opencl_ask_object(made, CL_MEM_ASSOCIATED_MEMOBJECT, &parent, sizeof(parent));
	opencl_use(1, &parent);
	if (pool && call->hook != &hooks[HOOK_clCreateBuffer])
		opencl_pool_created_other(call, made, context, parent);
	record_made(call, (uint64_t)(uintptr_t)made, bytes, (uint64_t)(uintptr_t)context,
		    opencl_device_of(context), (uint64_t)(uintptr_t)parent);
}

/* ---- queries about a buffer that the pool caches: all fail ---- */

static cl_int get_info(NO_CALL, void *real, cl_mem object, cl_mem_info what, size_t size, void *ret,
		       size_t *ret_size)
{
	cl_int r;

	if (opencl_pool_is_on() && opencl_pool_is_cached(object))
		return CL_INVALID_MEM_OBJECT;
	r = DRIVER(clGetMemObjectInfo, real)(object, what, size, ret, ret_size);
	if (guard_has(GUARD_PATTERNS) && r == CL_SUCCESS && what == CL_MEM_SIZE && ret)
		patterns_size(object, ret);
	return r;
}

static cl_int set_callback(NO_CALL, void *real, cl_mem object, destroyed *callback, void *data)
{
	cl_int r;

	if (opencl_pool_is_on() && opencl_pool_is_cached(object))
		return CL_INVALID_MEM_OBJECT;
	opencl_use(1, &object); /* callbacks run in reverse order: ours runs last */
	r = DRIVER(clSetMemObjectDestructorCallback, real)(object, callback, data);
	if (r == CL_SUCCESS && opencl_pool_is_on())
		opencl_pool_has_callback(object);
	if (r == CL_SUCCESS && guard_has(GUARD_PATTERNS))
		patterns_has_callback(object);
	return r;
}

/* ---- SVM freed by a queue ---- */

typedef void CL_CALLBACK svm_free(cl_command_queue, cl_uint, void *[], void *);

/* Records the frees of clEnqueueSVMFree. If the application passed a callback, the callback frees
 * the memory by calls that are intercepted. Otherwise the driver frees it some time after this
 * call. */
static void svm_freed(struct call *call, cl_uint count, void *pointers[], bool own_callback)
{
	struct freeing freeing;

	for (cl_uint i = 0; !own_callback && pointers && i < count; i++) {
		record_releasing(call, (uint64_t)(uintptr_t)pointers[i], &freeing);
		record_released(call, &freeing, OUTCOME_DONE, 0);
	}
}

static cl_int enqueue_free(struct call *call, void *real, cl_command_queue queue, cl_uint count,
			   void *pointers[], svm_free *callback, void *user_data,
			   cl_uint wait_count, const cl_event *wait_list, cl_event *event)
{
	cl_int r = DRIVER(clEnqueueSVMFree, real)(queue, count, pointers, callback, user_data,
						  wait_count, wait_list, event);

	if (r == CL_SUCCESS)
		svm_freed(call, count, pointers, callback != NULL);
	return r;
}

/* ---- extension lookups ---- */

/* Returns the wrapper for FOUND, the function that the lookup of NAME returned, or FOUND itself.
 * Each platform has functions of its own, and some lookups return core functions too. So the
 * wrapper is chosen by the pointer. */
static void *reroute(const char *name, void *found, const void *caller)
{
	struct hook *hook = found && name ? hook_find(name) : NULL;

	if (!found || !name || resolve_is_ours(found))
		return found;
	if (!hook || hook->api != API_OPENCL) {
		if (name[0] == 'c' && name[1] == 'l')
			coverage_saw(name, caller);
		return found;
	}
	coverage_route(OBSERVED_EXTENSION, API_OPENCL, caller);
	return slots_give(hook, found);
}

/* The return address is the wrapper's, so these are macros. */
#define get_address(call, real, name)                                                       \
	reroute(name, DRIVER(clGetExtensionFunctionAddress, real)(name),                    \
		__builtin_return_address(0))
#define get_platform_address(call, real, platform, name)                                    \
	reroute(name, DRIVER(clGetExtensionFunctionAddressForPlatform, real)(platform, name), \
		__builtin_return_address(0))

/* Each HAND row becomes up to three functions, see opencl_wrappers.c. */
#define HAND(symbol, returns, parameters, arguments, function)                              \
	EXPORT WRAP_HAND(symbol, symbol, resolve_direct, returns, parameters, arguments, function, \
			 SPACE_CL_USM, INSIDE(hook, route), OPENCL_MISSING(returns))        \
	WRAP_HAND(looked_up_##symbol, symbol, resolve_driver, returns, parameters, arguments, \
		  function, SPACE_CL_USM, INSIDE(hook, route), OPENCL_MISSING(returns))     \
	GUARD_IF(symbol, WRAP_HAND(guarded_##symbol, symbol, resolve_guarded, returns, parameters, \
				   arguments, GUARD_FUNCTION(symbol), SPACE_CL_USM,         \
				   INSIDE(hook, route), OPENCL_MISSING(returns)))
#define ROWS_OF "interpose/opencl/opencl_rows.def"
#include "interpose/dispatch/hooks.def"
