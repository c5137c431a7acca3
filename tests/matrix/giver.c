/* SPDX-License-Identifier: MIT
 *
 * An OpenCL loader under another name, in front of the real one, for what PoCL does not do:
 * it gives out core functions as extension addresses, as some vendors do; with GIVER_NOTHING=N
 * no call from the Nth on makes anything (GIVER_DIES: or may come at all); with
 * GIVER_REFUSES no reference is let go. Its
 * functions are made from the rows, so that none can be forgotten.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/opencl/wrappers/opencl_rows.h"

#pragma GCC diagnostic ignored "-Wshadow"

static void *real(const char *name)
{
	void *loader = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);

	return loader ? dlsym(loader, name) : NULL;
}

static int gives_nothing(void)
{
	static _Atomic int made;
	const char *from = getenv("GIVER_NOTHING");

	if (!from || atomic_fetch_add(&made, 1) + 1 < atoi(from))
		return 0;
	if (getenv("GIVER_DIES"))
		abort();
	return 1;
}

#define REAL(symbol) ((__typeof__(symbol) *)real(#symbol))
#define MAY_FAIL_CREATE                                       \
	if (gives_nothing()) {                                \
		if (errcode_ret)                              \
			*errcode_ret = CL_OUT_OF_RESOURCES;   \
		return NULL;                                  \
	}
#define MAY_FAIL_RELEASE                        \
	if (getenv("GIVER_REFUSES"))            \
		return CL_OUT_OF_RESOURCES;
#define MAY_FAIL_BUFFER MAY_FAIL_CREATE
#define MAY_FAIL_LEND          \
	if (gives_nothing())   \
		return NULL;
#define MAY_FAIL_RETAIN_MEM
#define MAY_FAIL_DISPOSE
#define MAY_FAIL_UNSHARE MAY_FAIL_RELEASE

#define HOOK(symbol, returns, parameters, arguments, verb, ...) \
	returns symbol parameters                               \
	{                                                       \
		MAY_FAIL_##verb                                 \
		return REAL(symbol) arguments;                  \
	}
#define HAND(...)
#define USED(...)
#include "interpose/opencl/opencl.def"

cl_int clEnqueueSVMFree(cl_command_queue queue, cl_uint count, void *pointers[],
			void(CL_CALLBACK *callback)(cl_command_queue, cl_uint, void *[], void *),
			void *data, cl_uint wait_count, const cl_event *wait_list, cl_event *event)
{
	MAY_FAIL_RELEASE
	return REAL(clEnqueueSVMFree)(queue, count, pointers, callback, data, wait_count, wait_list,
				      event);
}

cl_int clGetPlatformIDs(cl_uint count, cl_platform_id *platforms, cl_uint *ret_count)
{
	return REAL(clGetPlatformIDs)(count, platforms, ret_count);
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint count,
		      cl_device_id *devices, cl_uint *ret_count)
{
	return REAL(clGetDeviceIDs)(platform, type, count, devices, ret_count);
}

cl_context clCreateContext(const cl_context_properties *properties, cl_uint count,
			   const cl_device_id *devices,
			   void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
			   void *data, cl_int *error)
{
	return REAL(clCreateContext)(properties, count, devices, notify, data, error);
}

cl_context clCreateContextFromType(const cl_context_properties *properties, cl_device_type type,
				   void(CL_CALLBACK *notify)(const char *, const void *, size_t,
							     void *),
				   void *data, cl_int *error)
{
	return REAL(clCreateContextFromType)(properties, type, notify, data, error);
}

cl_command_queue clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
						    const cl_queue_properties *properties,
						    cl_int *error)
{
	return REAL(clCreateCommandQueueWithProperties)(context, device, properties, error);
}

cl_int clFinish(cl_command_queue queue)
{
	return REAL(clFinish)(queue);
}

cl_int clGetMemObjectInfo(cl_mem object, cl_mem_info what, size_t size, void *ret, size_t *ret_size)
{
	return REAL(clGetMemObjectInfo)(object, what, size, ret, ret_size);
}

cl_int clGetContextInfo(cl_context context, cl_context_info what, size_t size, void *ret,
			size_t *ret_size)
{
	return REAL(clGetContextInfo)(context, what, size, ret, ret_size);
}

void *clGetExtensionFunctionAddress(const char *name)
{
	Dl_info here;
	void *self;

	if (!dladdr((void *)real, &here) || !(self = dlopen(here.dli_fname, RTLD_NOW)))
		return NULL;
	return dlsym(self, name);
}

void *clGetExtensionFunctionAddressForPlatform(cl_platform_id platform, const char *name)
{
	(void)platform;
	return clGetExtensionFunctionAddress(name);
}
