/* SPDX-License-Identifier: MIT
 *
 * An OpenCL implementation without devices behind a real loader, for what PoCL does not
 * have: several platforms, each with extension functions of its own; unified shared memory;
 * GL and imported objects. It is exact about invalid frees. CL_VENDOR=die: it dies of them
 * instead; self: it calls its own exported names; refuse: the first free of USM fails.
 * Its queues do nothing: what is put into one is done when it is finished, not before, and
 * holds no reference of a buffer, as NVIDIA's. CL_VENDOR_ROOM: bytes of all buffers at once.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl_icd.h>

#define API __attribute__((visibility("default")))
#define PLATFORMS 10
#define ROOM (1 << 24)
#define BLOCKS 65536

static cl_icd_dispatch dispatch;

typedef void CL_CALLBACK notify(const char *, const void *, size_t, void *);

/* Loaders look at the first word of every object. */
struct _cl_platform_id { const cl_icd_dispatch *dispatch; };
struct _cl_device_id { const cl_icd_dispatch *dispatch; };
struct _cl_context {
	const cl_icd_dispatch *dispatch;
	cl_device_id device;
	notify *notify;
	void *data;
};
struct _cl_mem {
	const cl_icd_dispatch *dispatch;
	int references;
	size_t size;
	cl_context context;
	struct callback *callbacks;
};
typedef void CL_CALLBACK destroyed(cl_mem, void *);
struct callback {
	destroyed *call;
	void *data;
	struct callback *older;
};

static struct _cl_platform_id platforms[PLATFORMS];
static struct _cl_device_id devices[PLATFORMS];

static bool told_to(const char *what)
{
	const char *wish = getenv("CL_VENDOR");

	return wish && strcmp(wish, what) == 0;
}

static cl_uint platform_count(void)
{
	const char *count = getenv("CL_VENDOR_PLATFORMS");

	return count ? (cl_uint)atoi(count) : 1;
}

/* ---- platforms, devices, contexts ---- */

static cl_int put(const void *value, size_t bytes, size_t size, void *ret, size_t *ret_size)
{
	if (ret && size < bytes)
		return CL_INVALID_VALUE;
	if (ret)
		memcpy(ret, value, bytes);
	if (ret_size)
		*ret_size = bytes;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL platform_info(cl_platform_id platform, cl_platform_info what, size_t size,
					void *ret, size_t *ret_size)
{
	const char *text = what == CL_PLATFORM_EXTENSIONS	  ? "cl_khr_icd"
			   : what == CL_PLATFORM_ICD_SUFFIX_KHR ? "INTEL"
			   : what == CL_PLATFORM_VERSION	  ? "OpenCL 3.0 stand-in"
								  : "stand-in";

	(void)platform;
	return put(text, strlen(text) + 1, size, ret, ret_size);
}

API cl_int CL_API_CALL clIcdGetPlatformIDsKHR(cl_uint entries, cl_platform_id *ret, cl_uint *count)
{
	for (cl_uint i = 0; ret && i < entries && i < platform_count(); i++) {
		platforms[i].dispatch = &dispatch;
		devices[i].dispatch = &dispatch;
		ret[i] = &platforms[i];
	}
	if (count)
		*count = platform_count();
	return CL_SUCCESS;
}

static cl_int CL_API_CALL device_ids(cl_platform_id platform, cl_device_type type, cl_uint entries,
				     cl_device_id *ret, cl_uint *count)
{
	(void)type;
	if (ret && entries)
		*ret = &devices[platform - platforms];
	if (count)
		*count = 1;
	return CL_SUCCESS;
}

static cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint count,
					     const cl_device_id *ids, notify *callback, void *data,
					     cl_int *error)
{
	cl_context made = malloc(sizeof(*made));

	(void)properties, (void)count;
	*made = (struct _cl_context){ &dispatch, ids[0], callback, data };
	if (error)
		*error = CL_SUCCESS;
	return made;
}

static cl_int CL_API_CALL context_info(cl_context context, cl_context_info what, size_t size,
				       void *ret, size_t *ret_size)
{
	if (what != CL_CONTEXT_DEVICES)
		return CL_INVALID_VALUE;
	return put(&context->device, sizeof(cl_device_id), size, ret, ret_size);
}

static cl_int CL_API_CALL release_context(cl_context context)
{
	return context ? CL_SUCCESS : CL_INVALID_CONTEXT;
}

/* ---- objects ---- */

static size_t taken;

static bool is_full(size_t size)
{
	const char *limit = getenv("CL_VENDOR_ROOM");

	return limit && taken + size > (size_t)atol(limit);
}

static cl_mem object(cl_context context, size_t size, cl_int *error)
{
	bool full = is_full(size);
	cl_mem made = size && !full ? malloc(sizeof(*made)) : NULL;

	if (error)
		*error = made ? CL_SUCCESS
			 : full ? CL_MEM_OBJECT_ALLOCATION_FAILURE
				: CL_INVALID_BUFFER_SIZE;
	if (made) {
		taken += size;
		*made = (struct _cl_mem){ &dispatch, 1, size, context, NULL };
	}
	return made;
}

static cl_mem CL_API_CALL create_with(cl_context context, const cl_mem_properties *properties,
				      cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
	(void)properties, (void)flags, (void)host;
	return object(context, size, error);
}

/* Exported names may be a loader's or a tracer's: the table has the functions themselves. */
API cl_mem CL_API_CALL clCreateBufferWithProperties(cl_context context,
						    const cl_mem_properties *properties,
						    cl_mem_flags flags, size_t size, void *host,
						    cl_int *error)
{
	return create_with(context, properties, flags, size, host, error);
}

/* Asked for 13 bytes, it complains to the application first. */
static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size,
					void *host, cl_int *error)
{
	if (size == 13 && context->notify)
		context->notify("thirteen", NULL, 0, context->data);
	if (told_to("self"))
		return clCreateBufferWithProperties(context, NULL, flags, size, host, error);
	return object(context, size, error);
}

static cl_int CL_API_CALL retain(cl_mem memory)
{
	if (!memory || memory->references == 0)
		return CL_INVALID_MEM_OBJECT;
	memory->references++;
	return CL_SUCCESS;
}

/* Dead objects are kept, so that a second release can be told. It may hold a buffer for
 * itself, and let go of it by the exported name. */
static cl_int CL_API_CALL release(cl_mem memory)
{
	static __thread bool inside;

	if (!memory || memory->references == 0)
		return CL_INVALID_MEM_OBJECT;
	if (told_to("self") && !inside && memory->references == 1) {
		inside = true;
		memory->references++;
		clReleaseMemObject(memory);
		inside = false;
	}
	if (--memory->references > 0)
		return CL_SUCCESS;
	taken -= memory->size;
	for (struct callback *c = memory->callbacks; c; c = c->older)
		c->call(memory, c->data);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL on_destroyed(cl_mem memory, destroyed *call, void *data)
{
	struct callback *callback = malloc(sizeof(*callback));

	*callback = (struct callback){ call, data, memory->callbacks };
	memory->callbacks = callback;
	return CL_SUCCESS;
}

API cl_int CL_API_CALL clReleaseMemObject(cl_mem memory)
{
	return release(memory);
}

static const cl_uint no_maps;

static cl_int CL_API_CALL memory_info(cl_mem memory, cl_mem_info what, size_t size, void *ret,
				      size_t *ret_size)
{
	if (!memory || memory->references == 0)
		return CL_INVALID_MEM_OBJECT;
	if (what == CL_MEM_SIZE)
		return put(&memory->size, sizeof(size_t), size, ret, ret_size);
	if (what == CL_MEM_CONTEXT)
		return put(&memory->context, sizeof(cl_context), size, ret, ret_size);
	if (what == CL_MEM_REFERENCE_COUNT)
		return put(&memory->references, sizeof(cl_uint), size, ret, ret_size);
	if (what == CL_MEM_MAP_COUNT)
		return put(&no_maps, sizeof(no_maps), size, ret, ret_size);
	return CL_INVALID_VALUE;
}

/* ---- queues: markers wait for clFinish; nobody else's commands are there ---- */

struct _cl_command_queue {
	const cl_icd_dispatch *dispatch;
	int references;
	cl_event waiting;
};
struct _cl_event {
	const cl_icd_dispatch *dispatch;
	int references;
	cl_int status;
	cl_event older;
};

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id device,
						 cl_command_queue_properties properties,
						 cl_int *error)
{
	cl_command_queue made = malloc(sizeof(*made));

	(void)context, (void)device, (void)properties;
	*made = (struct _cl_command_queue){ &dispatch, 1, NULL };
	if (error)
		*error = CL_SUCCESS;
	return made;
}

static cl_int CL_API_CALL release_event(cl_event event)
{
	if (--event->references == 0)
		free(event);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL finish(cl_command_queue queue)
{
	cl_event older;

	for (cl_event event = queue->waiting; event; event = older) {
		older = event->older;
		event->status = told_to("broken") ? CL_OUT_OF_RESOURCES : CL_COMPLETE;
		release_event(event);
	}
	queue->waiting = NULL;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL release_queue(cl_command_queue queue)
{
	if (--queue->references == 0)
		finish(queue); /* its memory stays: nobody may use it all the same */
	return CL_SUCCESS;
}

static cl_int CL_API_CALL flush(cl_command_queue queue)
{
	return queue->references ? CL_SUCCESS : CL_INVALID_COMMAND_QUEUE;
}

static cl_int CL_API_CALL marker(cl_command_queue queue, cl_uint count, const cl_event *list,
				 cl_event *ret)
{
	cl_event made;

	(void)count, (void)list;
	if (!queue->references || told_to("no markers"))
		return CL_INVALID_COMMAND_QUEUE;
	if (!ret)
		return CL_SUCCESS;
	made = malloc(sizeof(*made));
	*made = (struct _cl_event){ &dispatch, 2, CL_QUEUED, queue->waiting };
	queue->waiting = *ret = made;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL event_info(cl_event event, cl_event_info what, size_t size, void *ret,
				     size_t *ret_size)
{
	if (what != CL_EVENT_COMMAND_EXECUTION_STATUS)
		return CL_INVALID_VALUE;
	return put(&event->status, sizeof(event->status), size, ret, ret_size);
}

static cl_mem CL_API_CALL gl_buffer(cl_context context, cl_mem_flags flags, cl_GLuint name,
				    cl_int *error)
{
	(void)flags;
	return object(context, name ? 512 : 0, error);
}

static cl_mem CL_API_CALL gl_texture(cl_context context, cl_mem_flags flags, cl_GLenum target,
				     cl_GLint level, cl_GLuint name, cl_int *error)
{
	(void)flags, (void)target, (void)level;
	return object(context, name ? 512 : 0, error);
}

static cl_mem CL_API_CALL egl_image(cl_context context, CLeglDisplayKHR display,
				    CLeglImageKHR image, cl_mem_flags flags,
				    const cl_egl_image_properties_khr *properties, cl_int *error)
{
	(void)display, (void)flags, (void)properties;
	return object(context, image ? 512 : 0, error);
}

static cl_mem CL_API_CALL import_arm(cl_context context, cl_mem_flags flags,
				     const cl_import_properties_arm *properties, void *memory,
				     size_t size, cl_int *error)
{
	(void)flags, (void)properties, (void)memory;
	return object(context, size, error);
}

static cl_mem CL_API_CALL buffer_nv(cl_context context, cl_mem_flags flags, cl_bitfield flags_nv,
				    size_t size, void *host, cl_int *error)
{
	(void)flags, (void)flags_nv, (void)host;
	return object(context, size, error);
}

/* ---- shared memory: no address is used twice, so that every wrong free can be told ---- */

enum state { NONE, SVM, USM, FREED };
static struct { char *start; enum state state; } blocks[BLOCKS];
static char room[ROOM] __attribute__((aligned(64)));

static void *share(size_t size, enum state state, cl_int *error)
{
	static _Atomic size_t used;
	static _Atomic unsigned int count;
	unsigned int i;
	char *start = NULL;

	if (size && size < ROOM / 2) {
		i = count++ % BLOCKS;
		start = room + (used += (size + 63) & ~(size_t)63) % (ROOM / 2);
		blocks[i].start = start;
		blocks[i].state = state;
	}
	if (error)
		*error = start ? CL_SUCCESS : CL_INVALID_BUFFER_SIZE;
	return start;
}

static cl_int unshare(void *address, enum state state)
{
	static bool refused;

	if (!address)
		return CL_SUCCESS;
	if (told_to("refuse") && !refused) {
		refused = true;
		return CL_OUT_OF_RESOURCES;
	}
	for (unsigned int i = 0; i < BLOCKS; i++) {
		if (blocks[i].start == address && blocks[i].state == state) {
			blocks[i].state = FREED;
			return CL_SUCCESS;
		}
	}
	if (told_to("die"))
		raise(SIGKILL);
	return CL_INVALID_VALUE;
}

static void *CL_API_CALL svm_alloc(cl_context context, cl_svm_mem_flags flags, size_t size,
				   cl_uint alignment)
{
	(void)context, (void)flags, (void)alignment;
	return share(size, SVM, NULL);
}

static void CL_API_CALL svm_free(cl_context context, void *address)
{
	(void)context;
	unshare(address, SVM);
}

static void *CL_API_CALL svm_alloc_khr(cl_context context, const cl_properties *properties,
				       cl_uint type, size_t size, cl_int *error)
{
	(void)context, (void)properties, (void)type;
	return share(size, SVM, error);
}

static cl_int CL_API_CALL svm_free_khr(cl_context context, const cl_properties *properties,
				       cl_bitfield flags, void *address)
{
	(void)context, (void)properties, (void)flags;
	return unshare(address, SVM);
}

/* Each platform has its own: only that one takes its contexts. */
#define OF_PLATFORM(n)                                                                          \
	static void *CL_API_CALL host_##n(cl_context c, const cl_mem_properties_intel *p,       \
					  size_t size, cl_uint a, cl_int *error)                \
	{                                                                                       \
		(void)p, (void)a;                                                               \
		return share(c->device == &devices[n] ? size : 0, USM, error);                  \
	}                                                                                       \
	static void *CL_API_CALL device_##n(cl_context c, cl_device_id d,                       \
					    const cl_mem_properties_intel *p, size_t size,      \
					    cl_uint a, cl_int *error)                           \
	{                                                                                       \
		(void)d, (void)p, (void)a;                                                      \
		return share(c->device == &devices[n] ? size : 0, USM, error);                  \
	}                                                                                       \
	static cl_int CL_API_CALL free_##n(cl_context c, void *address)                         \
	{                                                                                       \
		return c->device == &devices[n] ? unshare(address, USM) : CL_INVALID_CONTEXT;   \
	}                                                                                       \
	static cl_int CL_API_CALL free_blocking_##n(cl_context c, void *address)                \
	{                                                                                       \
		return c->device == &devices[n] ? unshare(address, USM) : CL_INVALID_CONTEXT;   \
	}                                                                                       \
	static cl_mem CL_API_CALL buffer_##n(cl_context c, const cl_mem_properties_intel *p,    \
					     cl_mem_flags f, size_t size, void *h, cl_int *error) \
	{                                                                                       \
		(void)p, (void)f, (void)h;                                                      \
		return object(c, c->device == &devices[n] ? size : 0, error);                   \
	}
OF_PLATFORM(0) OF_PLATFORM(1) OF_PLATFORM(2) OF_PLATFORM(3) OF_PLATFORM(4)
OF_PLATFORM(5) OF_PLATFORM(6) OF_PLATFORM(7) OF_PLATFORM(8) OF_PLATFORM(9)

#define ALL(name) { (void *)name##0, (void *)name##1, (void *)name##2, (void *)name##3, \
		    (void *)name##4, (void *)name##5, (void *)name##6, (void *)name##7, \
		    (void *)name##8, (void *)name##9 }
#define SAME(name) { (void *)name }

static const struct {
	const char *name;
	void *function[PLATFORMS]; /* only the first: all have the same */
} extensions[] = {
	{ "clHostMemAllocINTEL", ALL(host_) },
	{ "clDeviceMemAllocINTEL", ALL(device_) },
	{ "clSharedMemAllocINTEL", ALL(device_) },
	{ "clMemFreeINTEL", ALL(free_) },
	{ "clMemBlockingFreeINTEL", ALL(free_blocking_) },
	{ "clCreateBufferWithPropertiesINTEL", ALL(buffer_) },
	{ "clSVMAllocWithPropertiesKHR", SAME(svm_alloc_khr) },
	{ "clSVMFreeWithPropertiesKHR", SAME(svm_free_khr) },
	{ "clSVMAllocARM", SAME(svm_alloc) },
	{ "clSVMFreeARM", SAME(svm_free) },
	{ "clImportMemoryARM", SAME(import_arm) },
	{ "clCreateBufferNV", SAME(buffer_nv) },
	{ "clReleaseMemObject", SAME(release) },
};

static void *extension_of(cl_platform_id platform, const char *name)
{
	for (size_t i = 0; i < sizeof(extensions) / sizeof(extensions[0]); i++) {
		if (strcmp(extensions[i].name, name) != 0)
			continue;
		return extensions[i].function[1] ? extensions[i].function[platform - platforms]
						 : extensions[i].function[0];
	}
	return NULL;
}

API void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
	if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0)
		return (void *)clIcdGetPlatformIDsKHR;
	if (strcmp(name, "clGetPlatformInfo") == 0)
		return (void *)platform_info;
	return extension_of(&platforms[0], name);
}

static cl_icd_dispatch dispatch = {
	.clGetPlatformInfo = platform_info,
	.clGetDeviceIDs = device_ids,
	.clCreateContext = create_context,
	.clReleaseContext = release_context,
	.clGetContextInfo = context_info,
	.clCreateBuffer = create_buffer,
	.clCreateCommandQueue = create_queue,
	.clReleaseCommandQueue = release_queue,
	.clEnqueueMarkerWithWaitList = marker,
	.clGetEventInfo = event_info,
	.clReleaseEvent = release_event,
	.clFlush = flush,
	.clFinish = finish,
	.clRetainMemObject = retain,
	.clReleaseMemObject = release,
	.clGetMemObjectInfo = memory_info,
	.clSetMemObjectDestructorCallback = on_destroyed,
	.clGetExtensionFunctionAddress = clGetExtensionFunctionAddress,
	.clGetExtensionFunctionAddressForPlatform = extension_of,
	.clCreateFromGLBuffer = gl_buffer,
	.clCreateFromGLTexture = gl_texture,
	.clCreateFromGLTexture2D = gl_texture,
	.clCreateFromGLTexture3D = gl_texture,
	.clCreateFromGLRenderbuffer = gl_buffer,
	.clCreateFromEGLImageKHR = egl_image,
	.clCreateBufferWithProperties = create_with,
	.clSVMAlloc = svm_alloc,
	.clSVMFree = svm_free,
};
