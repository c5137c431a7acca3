/* SPDX-License-Identifier: MIT
 *
 * The calls that allocate, free and describe device memory, in the order of checks and with the
 * results that a real driver returns (README.md lists where each was measured). Owns no state:
 * heap.c owns the blocks. A failed allocation sets its address to 0.
 */
#include "standin/driver/async.h"

typedef CUresult allocate(CUdeviceptr *address, size_t bytes, CUcontext context);

static CUresult allocate_device(CUdeviceptr *address, size_t bytes, CUcontext context)
{
	return heap_alloc(address, bytes, BLOCK_DEVICE, context);
}

/* The allocation of every call that does not wait for work and takes device memory at once. */
static inline CUresult take(const char *name, CUdeviceptr *address, size_t bytes, allocate *from)
{
	CUresult r = gate(name);

	if (unlikely(r))
		return r;
	if (likely(address != NULL))
		*address = 0;
	r = context_usable(standin_thread.current);
	if (likely(!r))
		r = capture_check();
	if (unlikely(r))
		return r;
	if (unlikely(!address || !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (unlikely(standin_async))
		async_pass_frees(memory_context());
	return from(address, bytes, memory_context());
}

/* Waits for all work of the context that owns the block at ADDRESS, whichever context is
 * current. */
static __attribute__((noinline, cold)) void wait_for_users(const char *name, CUdeviceptr address)
{
	struct block b;

	if (heap_find(address, &b) && b.address == address && b.context)
		async_wait_to_free(name, b.context);
}

static inline CUresult give(const char *name, CUdeviceptr address)
{
	CUcontext current = standin_thread.current;
	CUresult r = gate(name);

	if (unlikely(r))
		return r;
	if (current) /* a free without a current context is allowed */
		r = context_usable(current);
	if (likely(!r))
		r = capture_check();
	if (unlikely(r))
		return r;
	if (unlikely(standin_async)) {
		wait_for_users(name, address);
		r = context_fault();
		if (r)
			return r;
	}
	if (unlikely(graph_free(address, &r)))
		return r;
	return address ? heap_free(address, FREE_AT_ONCE) : CUDA_SUCCESS;
}

STANDIN(cuMemAlloc_v2)(CUdeviceptr *dptr, size_t bytesize)
{
	CUresult r = take("cuMemAlloc_v2", dptr, bytesize, allocate_device);

	return logged("cuMemAlloc_v2", r ? 0 : *dptr, bytesize, r);
}

STANDIN(cuMemFree_v2)(CUdeviceptr dptr)
{
	return logged("cuMemFree_v2", dptr, 0, give("cuMemFree_v2", dptr));
}

STANDIN(cuMemFree)(CUdeviceptr_v1 dptr)
{
	return logged("cuMemFree", dptr, 0, give("cuMemFree", dptr));
}

static CUresult take_low(const char *name, CUdeviceptr_v1 *address, size_t bytes)
{
	CUdeviceptr wide = 0;
	CUresult r = take(name, address ? &wide : NULL, bytes, heap_alloc_low);

	if (address)
		*address = (CUdeviceptr_v1)wide;
	return logged(name, wide, bytes, r);
}

STANDIN(cuMemAlloc)(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
	return take_low("cuMemAlloc", dptr, bytesize);
}

static bool pitch_of(size_t width, size_t height, unsigned int element, size_t *pitch)
{
	if (!width || !height || (element != 4 && element != 8 && element != 16))
		return false;
	*pitch = (width + 511) & ~(size_t)511;
	return *pitch >= width && *pitch <= SIZE_MAX / height;
}

STANDIN(cuMemAllocPitch)
(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes, unsigned int Height,
 unsigned int ElementSizeBytes)
{
	size_t pitch = 0;
	bool good = pPitch && pitch_of(WidthInBytes, Height, ElementSizeBytes, &pitch);
	CUresult r = take_low("cuMemAllocPitch", good ? dptr : NULL, pitch * Height);

	if (!r)
		*pPitch = (unsigned int)pitch;
	return r;
}

STANDIN(cuMemAllocPitch_v2)
(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
 unsigned int ElementSizeBytes)
{
	size_t pitch = 0;
	bool good = pPitch && pitch_of(WidthInBytes, Height, ElementSizeBytes, &pitch);
	size_t bytes = good ? pitch * Height : 0;
	CUresult r = take("cuMemAllocPitch_v2", good ? dptr : NULL, bytes, allocate_device);

	if (!r)
		*pPitch = pitch;
	return logged("cuMemAllocPitch_v2", r ? 0 : *dptr, bytes, r);
}

static CUresult allocate_managed(CUdeviceptr *address, size_t bytes, CUcontext context)
{
	return heap_alloc(address, bytes, BLOCK_MANAGED, context);
}

STANDIN(cuMemAllocManaged)(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	bool good = flags == 1 || flags == 2 || flags == 4; /* GLOBAL, HOST, SINGLE */
	CUresult r = take("cuMemAllocManaged", good ? dptr : NULL, bytesize, allocate_managed);

	return logged("cuMemAllocManaged", r ? 0 : *dptr, bytesize, r);
}

/* Begins a call in STREAM. It is allowed if STREAM itself is captured, and refused if another
 * stream is. */
static CUresult enter_stream(const char *name, CUstream stream, CUgraph *graph)
{
	bool capturing = false;
	CUresult r = gate(name);

	*graph = NULL;

	if (!r)
		r = context_usable(standin_thread.current);
	if (!r)
		r = stream_check(stream, &capturing);
	if (!r && !stream && !capturing)
		r = capture_check();
	if (!r && capturing) {
		*graph = stream_graph(stream);
		r = *graph ? CUDA_SUCCESS : ERROR_CAPTURE_INVALIDATED;
	}
	return r;
}

static CUresult alloc_async(const char *name, CUdeviceptr *dptr, size_t bytes, CUmemoryPool pool,
			    CUstream stream)
{
	CUgraph graph;
	CUresult r = enter_stream(name, stream, &graph);
	CUdeviceptr address = 0;

	if (!r && !dptr)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && graph && bytes)
		r = graph_capture_alloc(graph, bytes, standin_thread.current->device, &address);
	else if (!r && !graph)
		r = pool_alloc(pool, &address, bytes, memory_context());
	if (dptr)
		*dptr = address;
	return logged(name, address, bytes, r);
}

/* Submits the free to the stream: the memory is freed when the stream's earlier work is done. */
static CUresult free_in_queue(const char *name, CUdeviceptr address, CUstream stream,
			      bool per_thread)
{
	struct work work = { .name = name, .kind = WORK_FREE };
	unsigned short generation;
	CUresult r = heap_leave(address, &generation);
	struct target t;

	if (r == CUDA_ERROR_NOT_SUPPORTED)
		return heap_free(address, FREE_IN_STREAM);
	if (r)
		return r;
	work.to = (struct range){ .where = RANGE_DEVICE, .generation = generation,
				  .address = address };
	r = stream_target(stream, per_thread, &t);
	if (!r)
		r = async_submit(t.queue, &work, NULL, NULL);
	if (r)
		heap_left(address, generation);
	return r;
}

static CUresult free_async(const char *name, CUdeviceptr dptr, CUstream stream, bool per_thread)
{
	CUgraph graph;
	CUresult r = enter_stream(name, stream, &graph), of_graph;

	if (!r && graph && dptr)
		r = graph_capture_free(graph, dptr);
	else if (!r && !graph && graph_free(dptr, &of_graph))
		r = of_graph;
	else if (!r && !graph && dptr)
		r = unlikely(standin_async) ? free_in_queue(name, dptr, stream, per_thread) :
					      heap_free(dptr, FREE_IN_STREAM);
	return logged(name, dptr, 0, r);
}

STANDIN(cuMemAllocAsync)(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	return alloc_async("cuMemAllocAsync", dptr, bytesize, POOL_CURRENT, hStream);
}

STANDIN(cuMemAllocAsync_ptsz)(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	return alloc_async("cuMemAllocAsync_ptsz", dptr, bytesize, POOL_CURRENT, hStream);
}

static CUresult alloc_from_pool(const char *name, CUdeviceptr *dptr, size_t bytes,
				CUmemoryPool pool, CUstream stream)
{
	return alloc_async(name, dptr, bytes, pool == POOL_CURRENT ? NULL : pool, stream);
}

STANDIN(cuMemAllocFromPoolAsync)
(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	return alloc_from_pool("cuMemAllocFromPoolAsync", dptr, bytesize, pool, hStream);
}

STANDIN(cuMemAllocFromPoolAsync_ptsz)
(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
	return alloc_from_pool("cuMemAllocFromPoolAsync_ptsz", dptr, bytesize, pool, hStream);
}

STANDIN(cuMemFreeAsync)(CUdeviceptr dptr, CUstream hStream)
{
	return free_async("cuMemFreeAsync", dptr, hStream, false);
}

STANDIN(cuMemFreeAsync_ptsz)(CUdeviceptr dptr, CUstream hStream)
{
	return free_async("cuMemFreeAsync_ptsz", dptr, hStream, true);
}

static CUresult describe(const char *name, CUdeviceptr inside, struct block *found)
{
	CUresult r = gate(name);

	if (!r)
		r = context_usable(standin_thread.current);
	if (!r && !heap_find(inside, found) && !virtual_find(inside, found) &&
	    !host_find(inside, found))
		r = CUDA_ERROR_NOT_FOUND;
	return r;
}

STANDIN(cuMemGetAddressRange_v2)(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct block found;
	CUresult r = describe("cuMemGetAddressRange_v2", dptr, &found);
	bool told = !r || r == CUDA_ERROR_NOT_FOUND;

	if (told && pbase)
		*pbase = r ? 0 : found.address;
	if (told && psize)
		*psize = r ? 0 : found.bytes;
	return r;
}

STANDIN(cuMemGetAddressRange)(CUdeviceptr_v1 *pbase, unsigned int *psize, CUdeviceptr_v1 dptr)
{
	struct block found;
	CUresult r = describe("cuMemGetAddressRange", dptr, &found);

	if (!r && pbase)
		*pbase = (CUdeviceptr_v1)found.address;
	if (!r && psize)
		*psize = (unsigned int)found.bytes;
	return r;
}

static CUresult info(const char *name, size_t *unused, size_t *total)
{
	CUresult r = gate(name);

	if (!r)
		r = context_usable(standin_thread.current);
	if (r)
		return r;
	*total = standin_memory;
	*unused = standin_memory - heap_used(standin_thread.current->device) -
		  (size_t)driver_taken(standin_thread.current->device);
	return CUDA_SUCCESS;
}

STANDIN(cuMemGetInfo_v2)(size_t *free, size_t *total)
{
	size_t of_it, all;
	CUresult r = info("cuMemGetInfo_v2", &of_it, &all);

	if (!r && free)
		*free = of_it;
	if (!r && total)
		*total = all;
	return r;
}

STANDIN(cuMemGetInfo)(unsigned int *free, unsigned int *total)
{
	size_t of_it, all;
	CUresult r = info("cuMemGetInfo", &of_it, &all);

	if (!r && free)
		*free = of_it > UINT32_MAX ? UINT32_MAX : (unsigned int)of_it;
	if (!r && total)
		*total = all > UINT32_MAX ? UINT32_MAX : (unsigned int)all;
	return r;
}
