/* SPDX-License-Identifier: MIT
 *
 * The guarded calls that several levels serve, and those of OpenCL: asks each level in turn, and
 * otherwise calls the driver. Must not decide what a level does.
 */
#include "interpose/guard/guarded.h"

#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/cuda_rows.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/guard/guard.h"
#include "interpose/guard/launches.h"
#include "interpose/guard/pages.h"
#include "interpose/guard/patterns.h"

/* ---- allocation and free ---- */

bool guard_relieve(void)
{
	bool pages = guard_has(GUARD_PAGES) && pages_relieve();

	return (guard_has(GUARD_PATTERNS) && patterns_relieve()) || pages;
}

bool guard_find(uint64_t address, struct guard_place *ret)
{
	struct page_place page;

	if (patterns_find(address, ret))
		return true;
	if (!pages_lookup(address, &page) || !page.live)
		return false;
	*ret = (struct guard_place){ .address = page.address, .bytes = page.bytes,
				     .companion = page.companion, .live = true };
	return true;
}

GUARDED(guard_alloc, CUdeviceptr *address, size_t bytes)
{
	CUresult r;

	if (guard_has(GUARD_PAGES) && pages_alloc(call, address, bytes, &r))
		return r;
	if (guard_has(GUARD_PATTERNS) && patterns_alloc(call, real, address, bytes, &r))
		return r;
	r = DRIVER(cuMemAlloc_v2, real)(address, bytes);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && guard_relieve())
		r = DRIVER(cuMemAlloc_v2, real)(address, bytes);
	return r;
}

GUARDED(guard_free, CUdeviceptr address)
{
	CUresult r;

	if (patterns_free(call, real, address, &r) ||
	    pages_free(call, real, address, NULL, false, &r))
		return r;
	return DRIVER(cuMemFree_v2, real)(address);
}

GUARDED(guard_free_async, CUdeviceptr address, CUstream stream)
{
	CUresult r;

	if (patterns_free_async(call, real, address, stream, &r) ||
	    pages_free(call, real, address, &stream, false, &r))
		return r;
	return DRIVER(cuMemFreeAsync, real)(address, stream);
}

/* ---- waits ---- */

void guard_failed(struct call *call, CUresult r)
{
	launches_explain(call, r);
}

static void check(struct call *call, CUresult r)
{
	if (r == CUDA_SUCCESS)
		patterns_check(call, PATTERNS_AT_SYNC);
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
	check(call, r);
	return r;
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
	check(call, r);
	return r;
}

GUARDED(guard_synchronize_event, CUevent event)
{
	CUresult r = DRIVER(cuEventSynchronize, real)(event);

	check(call, r);
	return r;
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
