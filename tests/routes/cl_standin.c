/* SPDX-License-Identifier: MIT
 *
 * A small OpenCL without devices, for what PoCL does not do: it gives out core functions
 * as extension addresses, refuses the first release (CL_STANDIN=refuse), and dies by
 * SIGKILL when an object is released after its end (CL_STANDIN=die), where a real driver
 * looks into freed memory.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

struct _cl_mem {
	int references;
	size_t size;
	cl_context context;
};

static int the_context, the_device;

static bool told_to(const char *what)
{
	const char *wish = getenv("CL_STANDIN");

	return wish && strcmp(wish, what) == 0;
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
	cl_mem made = size ? malloc(sizeof(*made)) : NULL;

	(void)flags, (void)host;
	if (error)
		*error = made ? CL_SUCCESS : CL_INVALID_BUFFER_SIZE;
	if (made)
		*made = (struct _cl_mem){ 1, size, context };
	return made;
}

cl_int clRetainMemObject(cl_mem object)
{
	if (!object || object->references == 0)
		return CL_INVALID_MEM_OBJECT;
	object->references++;
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
	object->references--;
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
