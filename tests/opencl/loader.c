/* SPDX-License-Identifier: MIT
 *
 * A tiny OpenCL of a loader's name, one of several (TAG) in a process: it takes no object
 * of the other one. Who is led to the wrong one gets an error and reads which it was.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

struct _cl_context { int tag; };
struct _cl_mem { int tag, references; size_t size; cl_context context; };
static struct _cl_context the_context = { TAG };

/* No function of one is where the other has it. */
#if TAG == 2
__attribute__((used)) static void shift(void)
{
	__asm__ volatile(".skip 4096");
}
#endif

static int is_mine(const char *call, int tag)
{
	if (tag != TAG)
		printf("%s: loader %d was given an object of %d\n", call, TAG, tag);
	return tag == TAG;
}

cl_int clGetPlatformIDs(cl_uint entries, cl_platform_id *ret, cl_uint *count)
{
	if (ret && entries)
		*ret = (cl_platform_id)(void *)&the_context;
	if (count)
		*count = 1;
	return CL_SUCCESS;
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint entries,
		      cl_device_id *ret, cl_uint *count)
{
	(void)platform, (void)type, (void)entries, (void)count;
	*ret = (cl_device_id)(void *)&the_context;
	return CL_SUCCESS;
}

cl_context clCreateContext(const cl_context_properties *properties, cl_uint count,
			   const cl_device_id *devices,
			   void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
			   void *data, cl_int *error)
{
	(void)properties, (void)count, (void)devices, (void)notify, (void)data;
	printf("a context of loader %d\n", TAG);
	*error = CL_SUCCESS;
	return &the_context;
}

cl_int clGetContextInfo(cl_context context, cl_context_info what, size_t size, void *ret,
			size_t *ret_size)
{
	cl_device_id device = (cl_device_id)(void *)&the_context;

	if (!is_mine("clGetContextInfo", context->tag) || what != CL_CONTEXT_DEVICES ||
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
	cl_mem made = is_mine("clCreateBuffer", context->tag) ? malloc(sizeof(*made)) : NULL;

	(void)flags, (void)host;
	*error = made ? CL_SUCCESS : CL_INVALID_CONTEXT;
	if (made)
		*made = (struct _cl_mem){ TAG, 1, size, context };
	return made;
}

cl_mem clCreateImage(cl_context context, cl_mem_flags flags, const cl_image_format *format,
		     const cl_image_desc *desc, void *host, cl_int *error)
{
	(void)format;
	return clCreateBuffer(context, flags, desc->image_width, host, error);
}

cl_int clReleaseMemObject(cl_mem object)
{
	if (!is_mine("clReleaseMemObject", object->tag) || object->references == 0)
		return CL_INVALID_MEM_OBJECT;
	object->references--;
	return CL_SUCCESS;
}

cl_int clGetMemObjectInfo(cl_mem object, cl_mem_info what, size_t size, void *ret, size_t *ret_size)
{
	(void)ret_size;
	if (!is_mine("clGetMemObjectInfo", object->tag) || what != CL_MEM_SIZE || size < 8)
		return CL_INVALID_VALUE;
	memcpy(ret, &object->size, sizeof(object->size));
	return CL_SUCCESS;
}
