/* SPDX-License-Identifier: MIT
 *
 * Cl_mem, and the OpenCL calls that a row can't say: the extension lookups, SVM freed by a
 * queue. Owns what an OpenCL result means for a block, and the numbering of devices.
 */
#include "interpose/opencl/wrappers/opencl_calls.h"

#include "interpose/dispatch/coverage.h"
#include "interpose/opencl/wrappers/opencl_rows.h"
#include "interpose/opencl/pool/opencl_pool.h"
#include "interpose/dispatch/resolve.h"

enum outcome opencl_outcome(cl_int r)
{
	switch (r) {
	case CL_SUCCESS:
		return OUTCOME_DONE;
	case CL_INVALID_MEM_OBJECT:
	case CL_INVALID_VALUE: /* addresses of shared memory */
		return OUTCOME_INVALID;
	default:
		return OUTCOME_REFUSED;
	}
}

typedef cl_int mem_info(cl_mem, cl_mem_info, size_t, void *, size_t *);
typedef cl_int context_info(cl_context, cl_context_info, size_t, void *, size_t *);

static bool ask_object(cl_mem object, cl_mem_info what, void *ret, size_t size)
{
	mem_info *ask = (mem_info *)opencl_used(USED_clGetMemObjectInfo);
	const struct route route = { (void *)ask, true, slots_inside.below };
	INSIDE(&hooks[HOOK_clGetMemObjectInfo], route);

	return ask && object && ask(object, what, size, ret, NULL) == CL_SUCCESS;
}

uint64_t opencl_size_of(cl_mem object)
{
	size_t size = 0;

	return ask_object(object, CL_MEM_SIZE, &size, sizeof(size)) ? size : 0;
}

cl_context opencl_context_of(cl_mem object)
{
	cl_context context = NULL;

	return ask_object(object, CL_MEM_CONTEXT, &context, sizeof(context)) ? context : NULL;
}

static unsigned int channels_of(cl_channel_order order)
{
	switch (order) {
	case CL_RG:
	case CL_RA:
	case CL_RGx:
		return 2;
	case CL_RGBA:
	case CL_BGRA:
	case CL_ARGB:
	case CL_ABGR:
	case CL_sRGBA:
	case CL_sBGRA:
	case CL_sRGBx:
	case CL_RGBx:
		return 4;
	default: /* CL_RGB is packed, see below */
		return 1;
	}
}

uint64_t opencl_texel_bytes(const cl_image_format *format)
{
	if (!format)
		return 0;
	switch (format->image_channel_data_type) {
	case CL_UNORM_SHORT_565:
	case CL_UNORM_SHORT_555:
		return 2;
	case CL_UNORM_INT_101010:
		return 4;
	case CL_SNORM_INT16:
	case CL_UNORM_INT16:
	case CL_SIGNED_INT16:
	case CL_UNSIGNED_INT16:
	case CL_HALF_FLOAT:
		return 2ull * channels_of(format->image_channel_order);
	case CL_SIGNED_INT32:
	case CL_UNSIGNED_INT32:
	case CL_FLOAT:
		return 4ull * channels_of(format->image_channel_order);
	default:
		return channels_of(format->image_channel_order);
	}
}

static uint64_t at_least_one(size_t extent)
{
	return extent ? extent : 1;
}

/* Of another object's memory, or of the host's, it takes none of its own. Extents that the
 * type does not use may hold anything. */
uint64_t opencl_image_bytes(const cl_image_format *format, const cl_image_desc *image)
{
	uint64_t row;

	if (!image || image->mem_object)
		return 0;
	row = opencl_texel_bytes(format) * at_least_one(image->image_width);
	switch (image->image_type) {
	case CL_MEM_OBJECT_IMAGE1D_ARRAY:
		return row * at_least_one(image->image_array_size);
	case CL_MEM_OBJECT_IMAGE2D:
		return row * at_least_one(image->image_height);
	case CL_MEM_OBJECT_IMAGE2D_ARRAY:
		return row * at_least_one(image->image_height) *
		       at_least_one(image->image_array_size);
	case CL_MEM_OBJECT_IMAGE3D:
		return row * at_least_one(image->image_height) * at_least_one(image->image_depth);
	default:
		return row;
	}
}

/* Devices have handles, not ordinals: they are numbered as this process meets them. */
#define DEVICES_MAX 64
static _Atomic(cl_device_id) devices[DEVICES_MAX];

int opencl_device_number(cl_device_id device)
{
	for (int i = 0; device && i < DEVICES_MAX; i++) {
		cl_device_id seen = NULL;

		if (atomic_compare_exchange_strong(&devices[i], &seen, device) || seen == device)
			return i;
	}
	return -1;
}

uint64_t opencl_total_of(int device)
{
	cl_int (*ask)(cl_device_id, cl_device_info, size_t, void *, size_t *) =
		(cl_int(*)(cl_device_id, cl_device_info, size_t, void *, size_t *))opencl_used(
			USED_clGetDeviceInfo);
	cl_device_id id = device >= 0 && device < DEVICES_MAX ? devices[device] : NULL;
	cl_ulong total = 0;

	if (!ask || !id ||
	    ask(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(total), &total, NULL) != CL_SUCCESS)
		return 0;
	return total;
}

/* The first device of CONTEXT; a context of several is named by it. */
static int ask_device_of(cl_context context)
{
	context_info *ask = (context_info *)opencl_used(USED_clGetContextInfo);
	cl_device_id ids[DEVICES_MAX];
	size_t size = 0;

	if (!ask || !context ||
	    ask(context, CL_CONTEXT_DEVICES, sizeof(ids), ids, &size) != CL_SUCCESS ||
	    size < sizeof(ids[0]))
		return -1;
	return opencl_device_number(ids[0]);
}

/* Contexts and their devices, so that a buffer costs no query: a small direct-mapped
 * table, refilled when a context is made anew at the same address. */
#define CONTEXTS 64
static struct {
	struct lock lock;
	cl_context context;
	int device;
} contexts[CONTEXTS];

static unsigned int slot_of(cl_context context)
{
	return (unsigned int)((uintptr_t)context >> 4) % CONTEXTS;
}

void opencl_record_context(const struct site *site, cl_context context)
{
	unsigned int slot = slot_of(context);

	lock_take(&contexts[slot].lock);
	if (contexts[slot].context == context)
		contexts[slot].context = NULL; /* its devices may be others */
	lock_give(&contexts[slot].lock);
	opencl_record_object(site, context, NULL);
	opencl_pool_context_made(context);
}

int opencl_device_of(cl_context context)
{
	unsigned int slot = slot_of(context);
	int device = -2;

	if (!context)
		return -1;
	lock_take(&contexts[slot].lock);
	if (contexts[slot].context == context)
		device = contexts[slot].device;
	lock_give(&contexts[slot].lock);
	if (device != -2)
		return device;
	device = ask_device_of(context); /* not with the lock: it calls the driver */
	lock_take(&contexts[slot].lock);
	contexts[slot].context = context;
	contexts[slot].device = device;
	lock_give(&contexts[slot].lock);
	return device;
}

typedef void CL_CALLBACK destroyed(cl_mem, void *);
typedef cl_int set_destroyed(cl_mem, destroyed *, void *);

/* On whatever thread. NVIDIA's may call when the handle is another object's already (seen on
 * an H200): the number tells which one is meant. */
static void CL_CALLBACK on_destroyed(cl_mem object, void *number)
{
	record_destroyed(API_OPENCL, (uint64_t)(uintptr_t)object, (uint64_t)(uintptr_t)number);
}

uint64_t opencl_number(void)
{
	static _Atomic uintptr_t numbers;

	return atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1;
}

bool opencl_watch(cl_mem object, void(CL_CALLBACK *call)(cl_mem, void *), void *data)
{
	static _Atomic bool missing; /* OpenCL 1.0: not searched for at each buffer */
	set_destroyed *set = NULL;

	if (!atomic_load_explicit(&missing, memory_order_relaxed))
		set = (set_destroyed *)opencl_used(USED_clSetMemObjectDestructorCallback);
	if (!set) {
		atomic_store(&missing, true);
		return false;
	}
	const struct route route = { (void *)set, true, slots_inside.below };
	INSIDE(&hooks[HOOK_clSetMemObjectDestructorCallback], route);

	return set(object, call, data) == CL_SUCCESS;
}

/* Callbacks run last registered first: ours, from before anybody else had the handle, is
 * the last one. Returns the number that it will be called with, 0 if it will not be. */
static uint64_t watch(cl_mem object)
{
	uintptr_t number = (uintptr_t)opencl_number();

	return opencl_watch(object, on_destroyed, (void *)number) ? number : 0;
}

/* What HOOK makes may be part of another object's memory. */
static bool may_have_parent(const struct hook *hook)
{
	return hook == &hooks[HOOK_clCreateSubBuffer] || hook == &hooks[HOOK_clCreateImage] ||
	       hook == &hooks[HOOK_clCreateImageWithProperties];
}

void opencl_record_made(const struct site *called, cl_mem made, cl_context context, uint64_t bytes)
{
	struct site watched = *called, *site = &watched;
	bool pool = opencl_pool_is_on();
	cl_mem parent = NULL;

	if (site->hook != &hooks[HOOK_clSVMAlloc]) /* no object, but an address */
		site->watched = watch(made);
	if (may_have_parent(site->hook) || pool)
		ask_object(made, CL_MEM_ASSOCIATED_MEMOBJECT, &parent, sizeof(parent));
	if (pool && site->hook != &hooks[HOOK_clCreateBuffer])
		opencl_pool_other(site, made, context, parent);
	record_made(site, (uint64_t)(uintptr_t)made, bytes, (uint64_t)(uintptr_t)context,
		    opencl_device_of(context), (uint64_t)(uintptr_t)parent);
}

/* ---- what may be asked of a buffer that the pool keeps: nothing ---- */

static cl_int get_info(struct route route, cl_mem object, cl_mem_info what, size_t size,
		       void *ret, size_t *ret_size)
{
	if (!route.real)
		return CL_INVALID_OPERATION;
	INSIDE(&hooks[HOOK_clGetMemObjectInfo], route);
	if (route.record && opencl_pool_is_on() && opencl_pool_is_kept(object))
		return CL_INVALID_MEM_OBJECT;
	return ((mem_info *)route.real)(object, what, size, ret, ret_size);
}

static cl_int set_callback(struct route route, cl_mem object, destroyed *call, void *data)
{
	cl_int r;

	if (!route.real)
		return CL_INVALID_OPERATION;
	INSIDE(&hooks[HOOK_clSetMemObjectDestructorCallback], route);
	if (route.record && opencl_pool_is_on() && opencl_pool_is_kept(object))
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

/* With a callback the application frees them itself, by calls that we see. Without one
 * the driver does, some time after this call. */
static void svm_freed(const struct site *site, cl_uint count, void *pointers[], bool own_callback)
{
	struct freeing freeing;

	for (cl_uint i = 0; !own_callback && pointers && i < count; i++) {
		record_releasing(site, (uint64_t)(uintptr_t)pointers[i], &freeing);
		record_released(site->hook, &freeing, OUTCOME_DONE, 0);
	}
}

static cl_int enqueue_free(struct route route, const struct caller *caller, enum hook_id id,
			   cl_command_queue queue, cl_uint count, void *pointers[],
			   svm_free *callback, void *user_data, cl_uint wait_count,
			   const cl_event *wait_list, cl_event *event)
{
	struct site site = { &hooks[id], caller, SPACE_CL_USM };
	cl_int r;

	if (!route.real)
		return CL_INVALID_OPERATION;
	INSIDE(site.hook, route);
	r = ((enqueue_svm_free *)route.real)(queue, count, pointers, callback, user_data,
					     wait_count, wait_list, event);
	if (r == CL_SUCCESS && route.record)
		svm_freed(&site, count, pointers, callback != NULL);
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

/* Each platform has functions of its own; some give out core functions here too. The
 * pointer says which wrapper it is to be. */
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
	coverage_route(FACT_EXTENSION, API_OPENCL, caller);
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
