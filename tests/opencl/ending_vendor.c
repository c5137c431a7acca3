/* SPDX-License-Identifier: MIT
 *
 * An OpenCL implementation that ends as Intel's CPU runtime does. An exit handler destroys its
 * static objects, unless CL_ENDING_HANDLER=0. Later its destructor destroys the memory objects that
 * are left, and calls their destructor callbacks. It has a worker thread that does the commands of
 * all queues, and that aborts if it meets the destroyed objects while the process has a child: a
 * report is made then, and without gpuleak the process would have ended. It aborts on a query after
 * its end, too.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_icd.h>

#define API __attribute__((visibility("default")))

static cl_icd_dispatch dispatch;

/* Loaders look at the first word of every object. */
struct _cl_platform_id { const cl_icd_dispatch *dispatch; };
struct _cl_device_id { const cl_icd_dispatch *dispatch; };
struct _cl_context { const cl_icd_dispatch *dispatch; };
struct _cl_command_queue { const cl_icd_dispatch *dispatch; };
typedef void CL_CALLBACK destroyed(cl_mem, void *);
struct callback {
	destroyed *call;
	void *data;
	struct callback *older;
};
struct _cl_mem {
	const cl_icd_dispatch *dispatch;
	int references, mappings, parts;
	bool gone;
	size_t size;
	cl_mem parent, next;
	struct callback *callbacks;
};

static struct _cl_platform_id platform = { &dispatch };
static struct _cl_device_id device = { &dispatch };
static struct _cl_context context = { &dispatch };
static struct _cl_command_queue queue = { &dispatch };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cl_mem objects;     /* all that were made; none is freed, so that each release is answered */
static cl_mem unmapping[64]; /* of the commands that the worker has to do */
static int commands;
static _Atomic bool ended; /* the static objects are destroyed */

static void must_live(const char *what)
{
	if (!ended)
		return;
	fprintf(stderr, "%s after the end\n", what);
	abort();
}

/* ---- the end of an object ---- */

/* Locking: the caller holds the lock. Callbacks run without it. */
static void destroy(cl_mem object)
{
	cl_mem parent = object->parent;

	object->gone = true;
	pthread_mutex_unlock(&lock);
	for (struct callback *c = object->callbacks; c; c = c->older)
		c->call(object, c->data);
	pthread_mutex_lock(&lock);
	if (parent && --parent->parts == 0 && !parent->references && !parent->mappings &&
	    !parent->gone)
		destroy(parent);
}

static void look(cl_mem object)
{
	if (!object->references && !object->mappings && !object->parts && !object->gone)
		destroy(object);
}

/* ---- the worker ---- */

static bool process_has_child(void)
{
	char path[64], bytes[16];
	ssize_t count;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	count = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));
	if (fd >= 0)
		close(fd);
	return count > 0;
}

static void *work(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_mutex_lock(&lock);
		while (commands) {
			cl_mem object = unmapping[--commands];

			object->mappings--;
			look(object);
		}
		pthread_mutex_unlock(&lock);
		if (ended && process_has_child()) {
			fputs("the worker met a destroyed object\n", stderr);
			abort();
		}
		usleep(100);
	}
	return NULL;
}

/* ---- the end of the implementation ---- */

static void destroy_static_objects(void)
{
	ended = true;
}

__attribute__((constructor)) static void begin(void)
{
	const char *handler = getenv("CL_ENDING_HANDLER");

	if (!handler || atoi(handler))
		atexit(destroy_static_objects);
}

__attribute__((destructor)) static void destroy_what_is_left(void)
{
	ended = true;
	pthread_mutex_lock(&lock);
	for (cl_mem object = objects; object; object = object->next)
		if (!object->gone)
			destroy(object);
	pthread_mutex_unlock(&lock);
}

/* ---- objects ---- */

static cl_mem make(size_t size, cl_mem parent, cl_int *error)
{
	static bool working;
	cl_mem made = calloc(1, sizeof(*made));
	pthread_t thread;

	*made = (struct _cl_mem){ .dispatch = &dispatch, .references = 1, .size = size,
				  .parent = parent };
	pthread_mutex_lock(&lock);
	if (parent)
		parent->parts++;
	made->next = objects;
	objects = made;
	pthread_mutex_unlock(&lock);
	if (!working && pthread_create(&thread, NULL, work, NULL) == 0)
		working = pthread_detach(thread) == 0;
	if (error)
		*error = CL_SUCCESS;
	return made;
}

static cl_mem CL_API_CALL create_buffer(cl_context c, cl_mem_flags flags, size_t size, void *host,
					cl_int *error)
{
	(void)c, (void)flags, (void)host;
	return make(size, NULL, error);
}

static cl_mem CL_API_CALL create_image(cl_context c, cl_mem_flags flags,
				       const cl_image_format *format, const cl_image_desc *image,
				       void *host, cl_int *error)
{
	(void)c, (void)flags, (void)format, (void)host;
	return make(4 * image->image_width * image->image_height, NULL, error);
}

static cl_mem CL_API_CALL create_part(cl_mem parent, cl_mem_flags flags,
				      cl_buffer_create_type type, const void *region, cl_int *error)
{
	(void)flags, (void)type;
	return make(((const cl_buffer_region *)region)->size, parent, error);
}

static cl_int CL_API_CALL retain(cl_mem object)
{
	must_live("clRetainMemObject");
	object->references++;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL release(cl_mem object)
{
	cl_int r = CL_SUCCESS;

	pthread_mutex_lock(&lock);
	if (object->gone || !object->references)
		r = CL_INVALID_MEM_OBJECT;
	else if (--object->references == 0)
		look(object);
	pthread_mutex_unlock(&lock);
	return r;
}

static cl_int CL_API_CALL on_destroyed(cl_mem object, destroyed *call, void *data)
{
	struct callback *callback = malloc(sizeof(*callback));

	must_live("clSetMemObjectDestructorCallback");
	*callback = (struct callback){ call, data, object->callbacks };
	object->callbacks = callback;
	return CL_SUCCESS;
}

static cl_int put(const void *value, size_t bytes, size_t size, void *ret, size_t *ret_size)
{
	must_live("a query");
	if (ret && size < bytes)
		return CL_INVALID_VALUE;
	if (ret)
		memcpy(ret, value, bytes);
	if (ret_size)
		*ret_size = bytes;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL memory_info(cl_mem object, cl_mem_info what, size_t size, void *ret,
				      size_t *ret_size)
{
	const cl_context its_context = &context;

	if (what == CL_MEM_SIZE)
		return put(&object->size, sizeof(size_t), size, ret, ret_size);
	if (what == CL_MEM_CONTEXT)
		return put(&its_context, sizeof(cl_context), size, ret, ret_size);
	if (what == CL_MEM_ASSOCIATED_MEMOBJECT)
		return put(&object->parent, sizeof(cl_mem), size, ret, ret_size);
	return CL_INVALID_VALUE;
}

/* ---- commands ---- */

static void *CL_API_CALL map(cl_command_queue q, cl_mem object, cl_bool blocking,
			     cl_map_flags flags, size_t offset, size_t size, cl_uint count,
			     const cl_event *list, cl_event *event, cl_int *error)
{
	(void)q, (void)blocking, (void)flags, (void)offset, (void)count, (void)list, (void)event;
	pthread_mutex_lock(&lock);
	object->mappings++;
	pthread_mutex_unlock(&lock);
	if (error)
		*error = CL_SUCCESS;
	return malloc(size);
}

static cl_int CL_API_CALL unmap(cl_command_queue q, cl_mem object, void *address, cl_uint count,
				const cl_event *list, cl_event *event)
{
	(void)q, (void)address, (void)count, (void)list, (void)event;
	pthread_mutex_lock(&lock);
	unmapping[commands++] = object;
	pthread_mutex_unlock(&lock);
	return CL_SUCCESS;
}

static cl_int CL_API_CALL copy(cl_command_queue q, cl_mem from, cl_mem to, size_t from_offset,
			       size_t to_offset, size_t size, cl_uint count, const cl_event *list,
			       cl_event *event)
{
	(void)q, (void)from, (void)to, (void)from_offset, (void)to_offset, (void)size, (void)count;
	(void)list, (void)event;
	return CL_SUCCESS;
}

/* ---- platforms, devices, contexts, queues ---- */

static cl_int CL_API_CALL platform_info(cl_platform_id p, cl_platform_info what, size_t size,
					void *ret, size_t *ret_size)
{
	const char *text = what == CL_PLATFORM_EXTENSIONS	? "cl_khr_icd"
			   : what == CL_PLATFORM_ICD_SUFFIX_KHR ? "ENDING"
			   : what == CL_PLATFORM_VERSION	? "OpenCL 3.0 ending"
								: "ending";

	(void)p;
	return put(text, strlen(text) + 1, size, ret, ret_size);
}

/* Not exported: loaders get it by clGetExtensionFunctionAddress(). */
static cl_int CL_API_CALL platform_ids(cl_uint entries, cl_platform_id *ret, cl_uint *count)
{
	if (ret && entries)
		*ret = &platform;
	if (count)
		*count = 1;
	return CL_SUCCESS;
}

static cl_int CL_API_CALL device_ids(cl_platform_id p, cl_device_type type, cl_uint entries,
				     cl_device_id *ret, cl_uint *count)
{
	(void)p, (void)type;
	if (ret && entries)
		*ret = &device;
	if (count)
		*count = 1;
	return CL_SUCCESS;
}

static cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint count,
					     const cl_device_id *ids,
					     void(CL_CALLBACK *notify)(const char *, const void *,
								       size_t, void *),
					     void *data, cl_int *error)
{
	(void)properties, (void)count, (void)ids, (void)notify, (void)data;
	*error = CL_SUCCESS;
	return &context;
}

static cl_int CL_API_CALL context_info(cl_context c, cl_context_info what, size_t size, void *ret,
				       size_t *ret_size)
{
	const cl_device_id its_device = &device;

	(void)c;
	if (what != CL_CONTEXT_DEVICES)
		return CL_INVALID_VALUE;
	return put(&its_device, sizeof(cl_device_id), size, ret, ret_size);
}

static cl_int CL_API_CALL release_context(cl_context c)
{
	(void)c;
	return CL_SUCCESS;
}

static cl_command_queue CL_API_CALL create_queue(cl_context c, cl_device_id d,
						 cl_command_queue_properties properties,
						 cl_int *error)
{
	(void)c, (void)d, (void)properties;
	*error = CL_SUCCESS;
	return &queue;
}

static cl_int CL_API_CALL release_queue(cl_command_queue q)
{
	(void)q;
	return CL_SUCCESS;
}

API void *CL_API_CALL clGetExtensionFunctionAddress(const char *name)
{
	if (strcmp(name, "clIcdGetPlatformIDsKHR") == 0)
		return (void *)platform_ids;
	return strcmp(name, "clGetPlatformInfo") == 0 ? (void *)platform_info : NULL;
}

static cl_icd_dispatch dispatch = {
	.clGetPlatformInfo = platform_info,
	.clGetDeviceIDs = device_ids,
	.clCreateContext = create_context,
	.clReleaseContext = release_context,
	.clGetContextInfo = context_info,
	.clCreateCommandQueue = create_queue,
	.clReleaseCommandQueue = release_queue,
	.clCreateBuffer = create_buffer,
	.clCreateImage = create_image,
	.clCreateSubBuffer = create_part,
	.clRetainMemObject = retain,
	.clReleaseMemObject = release,
	.clGetMemObjectInfo = memory_info,
	.clSetMemObjectDestructorCallback = on_destroyed,
	.clEnqueueMapBuffer = map,
	.clEnqueueCopyBuffer = copy,
	.clEnqueueUnmapMemObject = unmap,
	.clGetExtensionFunctionAddress = clGetExtensionFunctionAddress,
};
