/* SPDX-License-Identifier: MIT
 *
 * A context on the first device, and short words for what every OpenCL story does.
 */
#ifndef GPULEAK_TESTS_CL_H
#define GPULEAK_TESTS_CL_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cl_context context;
static cl_device_id device;

static inline void must(cl_int r, const char *what)
{
	if (r == CL_SUCCESS)
		return;
	printf("%s: %d\n", what, r);
	exit(1);
}

static inline void begin(void)
{
	cl_platform_id platform;
	cl_int r;

	must(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
	must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
	context = clCreateContext(NULL, 1, &device, NULL, NULL, &r); /* @context */
	must(r, "clCreateContext");
}

static inline cl_mem create(size_t bytes)
{
	cl_int r;
	cl_mem made = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &r); /* @create */

	must(r, "clCreateBuffer");
	return made;
}

static inline void retain(cl_mem object)
{
	must(clRetainMemObject(object), "clRetainMemObject"); /* @retain */
}

static inline void release(cl_mem object)
{
	must(clReleaseMemObject(object), "clReleaseMemObject"); /* @release */
}

struct story {
	const char *name;
	void (*tell)(void);
};

/* Tells the story called NAME; the caller's frame is "main". */
#define TELL(stories, wanted)                                                     \
	for (size_t story = 0; story < sizeof(stories) / sizeof(stories[0]); story++) \
		if (strcmp(wanted, stories[story].name) == 0)                           \
			stories[story].tell()

#endif
