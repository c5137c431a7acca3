/* SPDX-License-Identifier: MIT
 *
 * The native functions of frames.js: for docs/guides/languages/node.md. Does no more than OpenCL.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <node_api.h>

static cl_context context;

static napi_value open(napi_env env, napi_callback_info info)
{
	cl_platform_id platform;
	cl_device_id device;

	clGetPlatformIDs(1, &platform, NULL);
	clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
	context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
	return NULL;
}

static napi_value create_buffer(napi_env env, napi_callback_info info)
{
	size_t count = 1;
	double size;
	napi_value given, ret;

	napi_get_cb_info(env, info, &count, &given, NULL, NULL);
	napi_get_value_double(env, given, &size);
	napi_create_external(env, clCreateBuffer(context, CL_MEM_READ_WRITE, (size_t)size, NULL,
						 NULL), NULL, NULL, &ret);
	return ret;
}

static napi_value close(napi_env env, napi_callback_info info)
{
	clReleaseContext(context);
	return NULL;
}

NAPI_MODULE_INIT()
{
	napi_property_descriptor functions[] = {
		{ .utf8name = "open", .method = open },
		{ .utf8name = "createBuffer", .method = create_buffer },
		{ .utf8name = "close", .method = close },
	};

	napi_define_properties(env, exports, 3, functions);
	return exports;
}
