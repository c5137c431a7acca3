/* SPDX-License-Identifier: MIT
 *
 * A small OpenCL without devices, for what PoCL does not do: it gives out core functions
 * as extension addresses, and what CL_STANDIN has in it: refuses the first release (refuse);
 * dies by SIGKILL when an object is released after its end (die), where a real driver looks
 * into freed memory; calls destructors and then waits inside the last release, as NVIDIA's
 * does for commands (wait); keeps what was released until clFinish, which frees it on a
 * thread of its own and hands the oldest handle out again (hold); knows no destructor
 * callbacks (deaf).
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

typedef void(CL_CALLBACK *destructor)(cl_mem, void *);

struct _cl_mem {
	int references;
	size_t size;
	cl_context context;
	destructor callbacks[4];
	void *data[4];
	int callback_count;
	bool held;
};

enum { HELD_MAX = 16 };
static cl_mem held[HELD_MAX], again;
static int held_count;

static int the_context, the_device;

static bool told_to(const char *what)
{
	const char *wish = getenv("CL_STANDIN");

	return wish && strstr(wish, what);
}

cl_context clCreateContext(const cl_context_properties *properties, cl_uint count,
			   const cl_device_id *devices,
			   void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
			   void *data, cl_int *error)
{
	(void)properties, (void)count, (void)devices, (void)notify, (void)data;
	if (error)
		*error = CL_SUCCESS;
	return (cl_context)(void *)&the_context;
}

cl_int clGetContextInfo(cl_context context, cl_context_info what, size_t size, void *ret,
			size_t *ret_size)
{
	cl_device_id device = (cl_device_id)(void *)&the_device;

	if (context != (cl_context)(void *)&the_context || what != CL_CONTEXT_DEVICES ||
	    size < sizeof(device))
		return CL_INVALID_VALUE;
	memcpy(ret, &device, sizeof(device));
	if (ret_size)
		*ret_size = sizeof(device);
	return CL_SUCCESS;
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
		      cl_int *error)
{
	cl_mem made = size ? (again ? again : malloc(sizeof(*made))) : NULL;

	(void)flags, (void)host;
	if (error)
		*error = made ? CL_SUCCESS : CL_INVALID_BUFFER_SIZE;
	if (made)
		*made = (struct _cl_mem){ .references = 1, .size = size, .context = context };
	if (made == again)
		again = NULL;
	return made;
}

cl_int clRetainMemObject(cl_mem object)
{
	if (!object || (object->references == 0 && !object->held))
		return CL_INVALID_MEM_OBJECT;
	object->references++;
	return CL_SUCCESS;
}

cl_int clSetMemObjectDestructorCallback(cl_mem object, destructor callback, void *data)
{
	if (!object || object->references == 0 || object->callback_count == 4 || told_to("deaf"))
		return CL_INVALID_MEM_OBJECT;
	object->callbacks[object->callback_count] = callback;
	object->data[object->callback_count++] = data;
	return CL_SUCCESS;
}

static void destroy(cl_mem object)
{
	while (object->callback_count > 0) {
		object->callback_count--;
		object->callbacks[object->callback_count](object,
							  object->data[object->callback_count]);
	}
}

static void *destroy_held(void *unused)
{
	while (held_count > 0) {
		cl_mem object = held[--held_count];

		object->held = false;
		if (object->references)
			continue;
		destroy(object);
		again = object;
	}
	return unused;
}

cl_int clFinish(cl_command_queue queue)
{
	pthread_t thread;

	(void)queue;
	if (pthread_create(&thread, NULL, destroy_held, NULL) != 0)
		return CL_OUT_OF_HOST_MEMORY;
	pthread_join(thread, NULL);
	return CL_SUCCESS;
}

/* Dead objects are kept, so that a second release can be told. */
cl_int clReleaseMemObject(cl_mem object)
{
	static int releases;

	if (!object)
		return CL_INVALID_MEM_OBJECT;
	if (told_to("refuse") && ++releases == 1)
		return CL_OUT_OF_RESOURCES;
	if (object->references == 0) {
		if (told_to("die"))
			raise(SIGKILL);
		return CL_INVALID_MEM_OBJECT;
	}
	if (--object->references > 0)
		return CL_SUCCESS;
	if (told_to("hold") && held_count < HELD_MAX) {
		if (!object->held)
			held[held_count++] = object;
		object->held = true;
	} else {
		destroy(object);
	}
	if (told_to("wait"))
		usleep(20000);
	return CL_SUCCESS;
}

cl_int clGetMemObjectInfo(cl_mem object, cl_mem_info what, size_t size, void *ret, size_t *ret_size)
{
	(void)ret_size;
	if (!object || object->references == 0)
		return CL_INVALID_MEM_OBJECT;
	if (what == CL_MEM_SIZE && size >= sizeof(object->size))
		memcpy(ret, &object->size, sizeof(object->size));
	else if (what == CL_MEM_CONTEXT && size >= sizeof(object->context))
		memcpy(ret, &object->context, sizeof(object->context));
	else
		return CL_INVALID_VALUE;
	return CL_SUCCESS;
}

void *clGetExtensionFunctionAddress(const char *name)
{
	if (strcmp(name, "clCreateBuffer") == 0)
		return (void *)clCreateBuffer;
	if (strcmp(name, "clRetainMemObject") == 0)
		return (void *)clRetainMemObject;
	if (strcmp(name, "clReleaseMemObject") == 0)
		return (void *)clReleaseMemObject;
	return NULL;
}

void *clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name)
{
	(void)platform;
	return clGetExtensionFunctionAddress(name);
}
