/* SPDX-License-Identifier: MIT
 *
 * OpenCL objects that are not memory: the functions that their rows' verbs call. They are blocks of
 * 0 bytes in the table of all OpenCL handles. kernel_args.c records which of them keep memory
 * alive.
 */
#include <string.h>

#include "interpose/opencl/kernel_args.h"
#include "interpose/block/blocks.h"
#include "interpose/opencl/opencl_driver.h"
#include "interpose/opencl/wrappers/opencl_calls.h"

void opencl_record_object(struct call *call, const void *made, cl_context context)
{
	record_made(call, (uint64_t)(uintptr_t)made, 0, (uint64_t)(uintptr_t)context, -1, 0);
}

/* Returns the number of kernels of PROGRAM. Needed where the application passed no RET_COUNT: its
 * array may be larger than that number. */
static cl_uint kernels_of(cl_program program)
{
	used_clGetProgramInfo *ask = OPENCL_USED(clGetProgramInfo);
	size_t count = 0;

	if (!ask || ask(program, CL_PROGRAM_NUM_KERNELS, sizeof(count), &count, NULL) != CL_SUCCESS)
		return 0;
	return (cl_uint)count;
}

void opencl_record_kernels(struct call *call, cl_program program, cl_uint room,
			   const cl_kernel *kernels, const cl_uint *ret_count)
{
	cl_uint count;

	if (!kernels)
		return; /* the application only queried the number of kernels */
	count = ret_count ? *ret_count : kernels_of(program);
	for (cl_uint i = 0; i < count && i < room; i++)
		opencl_record_object(call, kernels[i], NULL);
}

/* A buffer argument is its handle, 8 bytes. Other values of 8 bytes are not handles of recorded
 * blocks. */
void opencl_record_argument(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
	cl_mem object = NULL;

	if (size != sizeof(object))
		return;
	if (value)
		memcpy(&object, value, sizeof(object));
	opencl_watch_used(object, kernel_args_set((uint64_t)(uintptr_t)kernel, index,
						  (uint64_t)(uintptr_t)object));
}
