/* SPDX-License-Identifier: MIT
 *
 * The guarded calls: asks each level in turn, and otherwise calls the driver. Must not decide what
 * a level does.
 */
#include "interpose/guard/guarded.h"

#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/cuda_rows.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/guard/guard.h"
#include "interpose/guard/launches.h"
#include "interpose/guard/pages.h"
#include "interpose/guard/patterns.h"
#include "interpose/opencl/opencl_driver.h"

/* The beginning of the struct of cuda.h. */
struct CUlaunchConfig_st {
	unsigned int grid[3], block[3], shared;
	CUstream stream;
};

/* ---- allocation and free ---- */

bool guard_relieve(void)
{
	bool ret = guard_has(GUARD_PATTERNS | GUARD_PAGES) && patterns_relieve();

	return (guard_has(GUARD_PAGES) && pages_relieve()) || ret;
}

bool guard_find(uint64_t address, struct guard_place *ret)
{
	struct page_place page;

	if (patterns_find(address, ret))
		return true;
	if (!pages_lookup(address, &page))
		return false;
	*ret = (struct guard_place){ .address = page.address, .bytes = page.bytes,
				     .companion = page.companion, .live = page.live };
	return true;
}

GUARDED(guard_alloc, CUdeviceptr *address, size_t bytes)
{
	CUresult r;

	patterns_poll(call);
	if (guard_has(GUARD_PAGES) && pages_alloc(call, address, bytes))
		return CUDA_SUCCESS;
	if (guard_has(GUARD_PATTERNS) && patterns_alloc(call, real, address, bytes, &r))
		return r;
	r = DRIVER(cuMemAlloc_v2, real)(address, bytes);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && guard_relieve())
		r = DRIVER(cuMemAlloc_v2, real)(address, bytes);
	return r;
}

static CUresult free_block(struct call *call, void *real, CUdeviceptr address,
			   const CUstream *stream)
{
	CUresult r;

	if (patterns_free(call, real, address, stream, &r) ||
	    pages_free(real, address, stream, false, &r))
		return r;
	return stream ? DRIVER(cuMemFreeAsync, real)(address, *stream)
		      : DRIVER(cuMemFree_v2, real)(address);
}

GUARDED(guard_free, CUdeviceptr address)
{
	return free_block(call, real, address, NULL);
}

GUARDED(guard_free_async, CUdeviceptr address, CUstream stream)
{
	return free_block(call, real, address, &stream);
}

GUARDED(guard_alloc_pitch, CUdeviceptr *address, size_t *pitch, size_t width, size_t height,
	unsigned int element)
{
	if (pages_alloc_pitch(call, address, pitch, width, height, element))
		return CUDA_SUCCESS;
	return DRIVER(cuMemAllocPitch_v2, real)(address, pitch, width, height, element);
}

static CUresult unguarded(enum guard_not reason, CUresult r)
{
	if (r == CUDA_SUCCESS)
		guard_count_unguarded(reason);
	return r;
}

GUARDED(guard_alloc_managed, CUdeviceptr *address, size_t bytes, unsigned int flags)
{
	(void)call;
	return unguarded(GUARD_NOT_MANAGED,
			 DRIVER(cuMemAllocManaged, real)(address, bytes, flags));
}

GUARDED(guard_alloc_async, CUdeviceptr *address, size_t bytes, CUstream stream)
{
	(void)call;
	return unguarded(GUARD_NOT_STREAM_ORDERED,
			 DRIVER(cuMemAllocAsync, real)(address, bytes, stream));
}

GUARDED(guard_alloc_from_pool, CUdeviceptr *address, size_t bytes, CUmemoryPool pool,
	CUstream stream)
{
	(void)call;
	return unguarded(GUARD_NOT_STREAM_ORDERED,
			 DRIVER(cuMemAllocFromPoolAsync, real)(address, bytes, pool, stream));
}

/* The driver has no handle for memory that was allocated otherwise. */
GUARDED(guard_retain_handle, CUmemGenericAllocationHandle *handle, void *address)
{
	struct page_place place;

	(void)call;
	if (pages_lookup((uintptr_t)address, &place))
		return CUDA_ERROR_INVALID_VALUE;
	return DRIVER(cuMemRetainAllocationHandle, real)(handle, address);
}

/* ---- launches ---- */

/* The result of DRIVER_CALL, which launches F. */
#define LAUNCH(driver_call, f, stream, params, extra)                                       \
	struct guarded_launch launch;                                                       \
	bool noted = launches_look(&launch, f, stream, params, extra);                      \
	CUresult r = driver_call;                                                           \
	return noted ? launches_note(call, r, &launch, f, stream) : r;

GUARDED(guard_launch, CUfunction f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
	unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
	CUstream stream, void **params, void **extra)
{
	LAUNCH(DRIVER(cuLaunchKernel, real)(f, grid_x, grid_y, grid_z, block_x, block_y, block_z,
					    shared, stream, params, extra),
	       f, stream, params, extra)
}

GUARDED(guard_launch_cooperative, CUfunction f, unsigned int grid_x, unsigned int grid_y,
	unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	unsigned int shared, CUstream stream, void **params)
{
	LAUNCH(DRIVER(cuLaunchCooperativeKernel, real)(f, grid_x, grid_y, grid_z, block_x, block_y,
						       block_z, shared, stream, params),
	       f, stream, params, NULL)
}

GUARDED(guard_launch_ex, const CUlaunchConfig *how, CUfunction f, void **params, void **extra)
{
	CUstream stream = how ? how->stream : NULL;

	LAUNCH(DRIVER(cuLaunchKernelEx, real)(how, f, params, extra), f, stream, params, extra)
}

/* ---- waits ---- */

static CUresult checked(struct call *call, CUresult r)
{
	if (r == CUDA_SUCCESS)
		patterns_check(call, PATTERNS_AT_SYNC);
	return r;
}

static CUresult waited_for_context(struct call *call, CUcontext context, uint64_t launched,
				   CUresult r)
{
	uint64_t owner = (uint64_t)(uintptr_t)context;
	int device;

	if (r != CUDA_SUCCESS) {
		guard_failed(call, r);
		return r;
	}
	if (!context)
		cuda_current_context(&owner, &device);
	launches_done_until(owner, launched);
	return checked(call, r);
}

CUresult guard_synchronize(struct call *call, void *real)
{
	uint64_t launched = launches_now();

	return waited_for_context(call, NULL, launched, DRIVER(cuCtxSynchronize, real)());
}

GUARDED(guard_synchronize_v2, CUcontext context)
{
	uint64_t launched = launches_now();

	return waited_for_context(call, context, launched,
				  DRIVER(cuCtxSynchronize_v2, real)(context));
}

GUARDED(guard_synchronize_stream, CUstream stream)
{
	uint64_t launched = launches_now();
	CUresult r = DRIVER(cuStreamSynchronize, real)(stream);

	if (r == CUDA_SUCCESS)
		launches_done_in_stream(stream, launched);
	return checked(call, r);
}

GUARDED(guard_synchronize_event, CUevent event)
{
	return checked(call, DRIVER(cuEventSynchronize, real)(event));
}

/* ---- OpenCL ---- */

GUARDED_CL(cl_mem, guard_buffer, cl_context context, cl_mem_flags flags, size_t size,
	   void *host_ptr, cl_int *errcode_ret)
{
	cl_mem r = patterns_buffer(call, real, context, flags, size, host_ptr, errcode_ret);

	inside_again();
	return r ? r : ((__typeof__(&clCreateBuffer))real)(context, flags, size, host_ptr,
							   errcode_ret);
}

GUARDED_CL(cl_mem, guard_buffer_with, cl_context context, const cl_mem_properties *properties,
	   cl_mem_flags flags, size_t size, void *host_ptr, cl_int *errcode_ret)
{
	cl_mem r = properties && *properties ? NULL : patterns_buffer(
		call, OPENCL_USED(clCreateBuffer), context, flags, size, host_ptr, errcode_ret);

	inside_again();
	return r ? r : ((__typeof__(&clCreateBufferWithProperties))real)(
			       context, properties, flags, size, host_ptr, errcode_ret);
}

GUARDED_CL(cl_int, guard_retain, cl_mem object)
{
	cl_int r;

	(void)call;
	return patterns_retain(object, &r) ? r
					   : ((__typeof__(&clRetainMemObject))real)(object);
}

GUARDED_CL(cl_int, guard_release, cl_mem object)
{
	cl_int r;

	if (patterns_release(call, object, &r))
		return r;
	return ((__typeof__(&clReleaseMemObject))real)(object);
}

GUARDED_CL(cl_int, guard_release_context, cl_context context)
{
	patterns_release_all(call);
	return ((__typeof__(&clReleaseContext))real)(context);
}

GUARDED_CL(cl_svm_pointer, guard_svm_alloc, cl_context context, cl_svm_mem_flags flags, size_t size,
	   cl_uint alignment)
{
	__auto_type alloc = (__typeof__(&clSVMAlloc))real;
	cl_svm_pointer r = alloc(context, flags, size, alignment);

	if (r || !patterns_release_all(call))
		return r;
	inside_again();
	return alloc(context, flags, size, alignment);
}

GUARDED_CL(void, guard_svm_free, cl_context context, void *address)
{
	if (!patterns_svm_freed(call, real, context, address))
		((__typeof__(&clSVMFree))real)(context, address);
}

GUARDED_CL(cl_int, guard_finish, cl_command_queue queue)
{
	uint64_t launched = launches_now();
	cl_int r = ((__typeof__(&clFinish))real)(queue);

	if (r == CL_SUCCESS) {
		launches_done_in_queue(queue, launched);
		patterns_check(call, PATTERNS_AT_SYNC);
	}
	return r;
}
