/* SPDX-License-Identifier: MIT
 *
 * Queries about OpenCL objects: sizes, contexts and devices; and callbacks for the end of an
 * object. Owns the numbers of devices.
 */
#include "interpose/opencl/opencl_driver.h"

#include "interpose/dispatch/resolve.h"

bool opencl_ask_object(cl_mem object, cl_mem_info what, void *ret, size_t size)
{
	used_clGetMemObjectInfo *ask = OPENCL_USED(clGetMemObjectInfo);
	const struct route route = { (void *)ask, true, thread_inside.below };
	INSIDE(&hooks[HOOK_clGetMemObjectInfo], route);

	return ask && object && ask(object, what, size, ret, NULL) == CL_SUCCESS;
}

uint64_t opencl_size_of(cl_mem object)
{
	size_t size = 0;

	return opencl_ask_object(object, CL_MEM_SIZE, &size, sizeof(size)) ? size : 0;
}

cl_context opencl_context_of(cl_mem object)
{
	cl_context context = NULL;

	return opencl_ask_object(object, CL_MEM_CONTEXT, &context, sizeof(context)) ? context
										    : NULL;
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
	default: /* CL_RGB has only packed types: see opencl_texel_bytes() */
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

/* An image in another object's memory, or in host memory, takes none of its own. Extents that the
 * image type does not use may have any value, so they are not read. */
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

/* OpenCL devices have handles and no ordinals: each gets a number when this process first uses
 * it. */
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
	used_clGetDeviceInfo *ask = OPENCL_USED(clGetDeviceInfo);
	cl_device_id id = device >= 0 && device < DEVICES_MAX ? devices[device] : NULL;
	cl_ulong total = 0;

	if (!ask || !id ||
	    ask(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(total), &total, NULL) != CL_SUCCESS)
		return 0;
	return total;
}

/* Returns the number of the first device of CONTEXT, which stands for all devices of the
 * context. */
static int query_device_of(cl_context context)
{
	used_clGetContextInfo *ask = OPENCL_USED(clGetContextInfo);
	cl_device_id ids[DEVICES_MAX];
	size_t size = 0;

	if (!ask || !context ||
	    ask(context, CL_CONTEXT_DEVICES, sizeof(ids), ids, &size) != CL_SUCCESS ||
	    size < sizeof(ids[0]))
		return -1;
	return opencl_device_number(ids[0]);
}

/* Caches the device of each context, so that a new buffer needs no query. A direct-mapped table; a
 * new context at the same address clears its entry. An entry has the address of the context, whose
 * upper byte is 0, above 1 + the number of the device. */
#define CONTEXTS 64
static _Atomic uint64_t contexts[CONTEXTS];

static _Atomic uint64_t *entry_of(cl_context context)
{
	return &contexts[((uintptr_t)context >> 4) % CONTEXTS];
}

void opencl_context_made(cl_context context)
{
	uint64_t known = atomic_load(entry_of(context));

	if (known >> 8 == (uintptr_t)context) /* the new context may have other devices */
		atomic_compare_exchange_strong(entry_of(context), &known, 0);
}

int opencl_device_of(cl_context context)
{
	uint64_t known;
	int device;

	if (!context)
		return -1;
	known = atomic_load_explicit(entry_of(context), memory_order_acquire);
	if (known >> 8 == (uintptr_t)context)
		return (int)(known & 0xff) - 1;
	device = query_device_of(context);
	atomic_store(entry_of(context), (uint64_t)(uintptr_t)context << 8 | (uint8_t)(device + 1));
	return device;
}

static _Atomic uintptr_t numbers;

bool opencl_was_used(void)
{
	return atomic_load_explicit(&numbers, memory_order_relaxed) != 0;
}

uint64_t opencl_number(void)
{
	return atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1;
}

bool opencl_watch(cl_mem object, void(CL_CALLBACK *call)(cl_mem, void *), void *data)
{
	static _Atomic bool missing; /* OpenCL 1.0 lacks the function: looked up only once */
	used_clSetMemObjectDestructorCallback *set = NULL;

	if (!atomic_load_explicit(&missing, memory_order_relaxed))
		set = OPENCL_USED(clSetMemObjectDestructorCallback);
	if (!set) {
		atomic_store(&missing, true);
		return false;
	}
	const struct route route = { (void *)set, true, thread_inside.below };
	INSIDE(&hooks[HOOK_clSetMemObjectDestructorCallback], route);

	return set(object, call, data) == CL_SUCCESS;
}
