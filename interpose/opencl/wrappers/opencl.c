/* SPDX-License-Identifier: MIT
 *
 * cl_mem objects, and the OpenCL calls that a row of opencl.def cannot describe: the extension
 * lookups, and SVM freed by a queue.
 */
#include "interpose/dispatch/loader.h"
#include "interpose/block/blocks.h"
#include "interpose/block/driver_call.h"
#include "interpose/opencl/opencl_driver.h"
#include "interpose/opencl/wrappers/opencl_calls.h"

#include "interpose/dispatch/coverage.h"
#include "interpose/opencl/wrappers/opencl_rows.h"
#include "interpose/opencl/pool/opencl_pool.h"
#include "interpose/dispatch/resolve.h"

typedef cl_int mem_info(cl_mem, cl_mem_info, size_t, void *, size_t *);
typedef void CL_CALLBACK destroyed(cl_mem, void *);
typedef cl_int set_destroyed(cl_mem, destroyed *, void *);

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
 * of registration. Ours was registered before the application had the handle, so it runs last. */
static uint64_t watch(cl_mem object)
{
	uintptr_t number = (uintptr_t)opencl_number();

	return opencl_watch(object, on_destroyed, (void *)number) ? number : 0;
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
	if (pool && call->hook != &hooks[HOOK_clCreateBuffer])
		opencl_pool_created_other(call, made, context, parent);
	record_made(call, (uint64_t)(uintptr_t)made, bytes, (uint64_t)(uintptr_t)context,
		    opencl_device_of(context), (uint64_t)(uintptr_t)parent);
}

/* ---- queries about a buffer that the pool caches: all fail ---- */

static cl_int get_info(struct route route, cl_mem object, cl_mem_info what, size_t size,
		       void *ret, size_t *ret_size)
{
	if (!route.real)
		return CL_INVALID_OPERATION;
	INSIDE(&hooks[HOOK_clGetMemObjectInfo], route);
	if (route.record && opencl_pool_is_on() && opencl_pool_is_cached(object))
		return CL_INVALID_MEM_OBJECT;
	return ((mem_info *)route.real)(object, what, size, ret, ret_size);
}

static cl_int set_callback(struct route route, cl_mem object, destroyed *call, void *data)
{
	cl_int r;

	if (!route.real)
		return CL_INVALID_OPERATION;
	INSIDE(&hooks[HOOK_clSetMemObjectDestructorCallback], route);
	if (route.record && opencl_pool_is_on() && opencl_pool_is_cached(object))
		return CL_INVALID_MEM_OBJECT;
	r = ((set_destroyed *)route.real)(object, call, data);
	if (r == CL_SUCCESS && route.record && opencl_pool_is_on())
		opencl_pool_has_callback(object);
	return r;
}

#define GET_INFO(name, resolve)                                                                \
	cl_int name(cl_mem memobj, cl_mem_info param_name, size_t param_value_size,            \
		    void *param_value, size_t *param_value_size_ret)                           \
	{                                                                                      \
		return get_info(resolve(&hooks[HOOK_clGetMemObjectInfo]), memobj, param_name,  \
				param_value_size, param_value, param_value_size_ret);          \
	}
EXPORT GET_INFO(clGetMemObjectInfo, resolve_direct)
GET_INFO(looked_up_clGetMemObjectInfo, resolve_driver)

#define SET_CALLBACK(name, resolve)                                                            \
	cl_int name(cl_mem memobj, destroyed *pfn_notify, void *user_data)                     \
	{                                                                                      \
		return set_callback(resolve(&hooks[HOOK_clSetMemObjectDestructorCallback]),    \
				    memobj, pfn_notify, user_data);                            \
	}
EXPORT SET_CALLBACK(clSetMemObjectDestructorCallback, resolve_direct)
SET_CALLBACK(looked_up_clSetMemObjectDestructorCallback, resolve_driver)

/* ---- SVM freed by a queue ---- */

typedef void CL_CALLBACK svm_free(cl_command_queue, cl_uint, void *[], void *);
typedef cl_int enqueue_svm_free(cl_command_queue, cl_uint, void *[], svm_free *, void *, cl_uint,
				const cl_event *, cl_event *);

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

static cl_int enqueue_free(struct route route, const struct caller *caller, enum hook_id id,
			   cl_command_queue queue, cl_uint count, void *pointers[],
			   svm_free *callback, void *user_data, cl_uint wait_count,
			   const cl_event *wait_list, cl_event *event)
{
	struct call call = { &hooks[id], caller, SPACE_CL_USM };
	cl_int r;

	if (!route.real)
		return CL_INVALID_OPERATION;
	INSIDE(call.hook, route);
	r = ((enqueue_svm_free *)route.real)(queue, count, pointers, callback, user_data,
					     wait_count, wait_list, event);
	if (r == CL_SUCCESS && route.record)
		svm_freed(&call, count, pointers, callback != NULL);
	return r;
}

#define ENQUEUE_FREE(name, symbol, resolve)                                                    \
	cl_int name(cl_command_queue queue, cl_uint count, void *pointers[], svm_free *call,   \
		    void *data, cl_uint wait_count, const cl_event *waits, cl_event *event)    \
	{                                                                                      \
		return enqueue_free(resolve(&hooks[HOOK_##symbol]), CALLER, HOOK_##symbol,     \
				    queue, count, pointers, call, data, wait_count, waits,     \
				    event);                                                    \
	}
EXPORT ENQUEUE_FREE(clEnqueueSVMFree, clEnqueueSVMFree, resolve_direct)
ENQUEUE_FREE(looked_up_clEnqueueSVMFree, clEnqueueSVMFree, resolve_driver)
EXPORT ENQUEUE_FREE(clEnqueueSVMFreeARM, clEnqueueSVMFreeARM, resolve_direct)
ENQUEUE_FREE(looked_up_clEnqueueSVMFreeARM, clEnqueueSVMFreeARM, resolve_driver)

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

static void *address_by(struct route route, const char *name, const void *caller)
{
	typedef void *by_name(const char *);

	void *found;
	INSIDE(&hooks[HOOK_clGetExtensionFunctionAddress], route);

	found = route.real ? ((by_name *)route.real)(name) : NULL;
	return route.record ? reroute(name, found, caller) : found;
}

EXPORT void *clGetExtensionFunctionAddress(const char *func_name)
{
	return address_by(resolve_direct(&hooks[HOOK_clGetExtensionFunctionAddress]), func_name,
			  __builtin_return_address(0));
}

void *looked_up_clGetExtensionFunctionAddress(const char *func_name)
{
	return address_by(resolve_driver(&hooks[HOOK_clGetExtensionFunctionAddress]), func_name,
			  __builtin_return_address(0));
}

static void *platform_address_by(struct route route, cl_platform_id platform, const char *name,
				 const void *caller)
{
	typedef void *by_platform(cl_platform_id, const char *);

	void *found;
	INSIDE(&hooks[HOOK_clGetExtensionFunctionAddressForPlatform], route);

	found = route.real ? ((by_platform *)route.real)(platform, name) : NULL;
	return route.record ? reroute(name, found, caller) : found;
}

EXPORT void *clGetExtensionFunctionAddressForPlatform(cl_platform_id platform,
						      const char *func_name)
{
	return platform_address_by(
		resolve_direct(&hooks[HOOK_clGetExtensionFunctionAddressForPlatform]), platform,
		func_name, __builtin_return_address(0));
}

void *looked_up_clGetExtensionFunctionAddressForPlatform(cl_platform_id platform,
							 const char *func_name)
{
	return platform_address_by(
		resolve_driver(&hooks[HOOK_clGetExtensionFunctionAddressForPlatform]), platform,
		func_name, __builtin_return_address(0));
}
