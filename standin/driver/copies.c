/* SPDX-License-Identifier: MIT
 *
 * Copies and fills of rows and planes, and between devices: each row is a copy or fill of work.c.
 * Arrays have no bytes here.
 */
#include "standin/driver/async.h"

/* One end of a copy. */
struct end {
	uint64_t address;
	size_t pitch, plane;
	bool device; /* the call is for device memory */
	bool array;
};

struct box {
	const char *name;
	struct end to, from;
	size_t width, height, depth;
};

static struct end end_of(int type, const void *host, CUdeviceptr device, size_t pitch)
{
	return (struct end){
		.address = type == MEMORY_HOST ? (uintptr_t)host : device,
		.pitch = pitch,
		.device = type == MEMORY_DEVICE,
		.array = type == MEMORY_ARRAY,
	};
}

static CUresult copy_box(const struct box *box, CUstream stream, int how)
{
	CUresult r = standin_do_nothing(box->name);

	if (r || !standin_async)
		return r;
	if (box->to.array || box->from.array)
		return standin_unable();
	if (box->height > 1 && (box->to.pitch < box->width || box->from.pitch < box->width))
		return CUDA_ERROR_INVALID_VALUE;
	how |= (box->to.device ? TO_DEVICE : 0) | (box->from.device ? FROM_DEVICE : 0);
	for (size_t z = 0; z < box->depth; z++)
		for (size_t y = 0; y < box->height && !r; y++)
			r = work_copy(box->name,
				      box->to.address + z * box->to.plane + y * box->to.pitch,
				      box->from.address + z * box->from.plane + y * box->from.pitch,
				      box->width, stream, how);
	return r;
}

static CUresult copy_2d(const char *name, const CUDA_MEMCPY2D *c, CUstream stream, int how)
{
	struct box box;

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	box = (struct box){ name, end_of(c->dst.type, c->dst.host, c->dst.device, c->dst.pitch),
			    end_of(c->src.type, c->src.host, c->src.device, c->src.pitch),
			    c->width, c->height, 1 };
	box.to.address += c->dst.y * c->dst.pitch + c->dst.x;
	box.from.address += c->src.y * c->src.pitch + c->src.x;
	return copy_box(&box, stream, how);
}

static CUresult copy_3d(const char *name, const CUDA_MEMCPY3D *c, CUstream stream, int how)
{
	struct box box;

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	box = (struct box){ name, end_of(c->dst.type, c->dst.host, c->dst.device, c->dst.pitch),
			    end_of(c->src.type, c->src.host, c->src.device, c->src.pitch),
			    c->width, c->height, c->depth };
	box.to.plane = c->dst.pitch * (c->dst.height ? c->dst.height : c->height);
	box.from.plane = c->src.pitch * (c->src.height ? c->src.height : c->height);
	box.to.address += c->dst.z * box.to.plane + c->dst.y * c->dst.pitch + c->dst.x;
	box.from.address += c->src.z * box.from.plane + c->src.y * c->src.pitch + c->src.x;
	return copy_box(&box, stream, how);
}

STANDIN(cuMemcpy2D_v2)(const CUDA_MEMCPY2D *pCopy)
{
	return copy_2d("cuMemcpy2D_v2", pCopy, NULL, AT_ONCE);
}

STANDIN(cuMemcpy2D_v2_ptds)(const CUDA_MEMCPY2D *pCopy)
{
	return copy_2d("cuMemcpy2D_v2_ptds", pCopy, NULL, AT_ONCE | PER_THREAD);
}

STANDIN(cuMemcpy2DUnaligned_v2)(const CUDA_MEMCPY2D *pCopy)
{
	return copy_2d("cuMemcpy2DUnaligned_v2", pCopy, NULL, AT_ONCE);
}

STANDIN(cuMemcpy2DUnaligned_v2_ptds)(const CUDA_MEMCPY2D *pCopy)
{
	return copy_2d("cuMemcpy2DUnaligned_v2_ptds", pCopy, NULL, AT_ONCE | PER_THREAD);
}

STANDIN(cuMemcpy2DAsync_v2)(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	return copy_2d("cuMemcpy2DAsync_v2", pCopy, hStream, 0);
}

STANDIN(cuMemcpy2DAsync_v2_ptsz)(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	return copy_2d("cuMemcpy2DAsync_v2_ptsz", pCopy, hStream, PER_THREAD);
}

STANDIN(cuMemcpy3D_v2)(const CUDA_MEMCPY3D *pCopy)
{
	return copy_3d("cuMemcpy3D_v2", pCopy, NULL, AT_ONCE);
}

STANDIN(cuMemcpy3D_v2_ptds)(const CUDA_MEMCPY3D *pCopy)
{
	return copy_3d("cuMemcpy3D_v2_ptds", pCopy, NULL, AT_ONCE | PER_THREAD);
}

STANDIN(cuMemcpy3DAsync_v2)(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	return copy_3d("cuMemcpy3DAsync_v2", pCopy, hStream, 0);
}

STANDIN(cuMemcpy3DAsync_v2_ptsz)(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	return copy_3d("cuMemcpy3DAsync_v2_ptsz", pCopy, hStream, PER_THREAD);
}

/* ---- between devices: all memory is in one address space ---- */

STANDIN(cuMemcpyPeer)
(CUdeviceptr dst, CUcontext dstContext, CUdeviceptr src, CUcontext srcContext, size_t ByteCount)
{
	CUresult r = context_usable(dstContext);

	if (!r)
		r = context_usable(srcContext);
	return r ? r : work_copy("cuMemcpyPeer", dst, src, ByteCount, NULL, AT_ONCE);
}

STANDIN(cuMemcpyPeerAsync)
(CUdeviceptr dst, CUcontext dstContext, CUdeviceptr src, CUcontext srcContext, size_t ByteCount,
 CUstream hStream)
{
	CUresult r = context_usable(dstContext);

	if (!r)
		r = context_usable(srcContext);
	return r ? r : work_copy("cuMemcpyPeerAsync", dst, src, ByteCount, hStream, 0);
}

/* ---- fills ---- */

static CUresult fill_rows(const char *name, CUdeviceptr to, size_t pitch, uint32_t value,
			  unsigned int element, size_t width, size_t height, CUstream stream,
			  bool per_thread)
{
	CUresult r = standin_do_nothing(name);

	if (!r && height > 1 && pitch < width * element)
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t y = 0; y < height && !r; y++)
		r = work_fill(name, to + y * pitch, value, element, width, stream, per_thread);
	return r;
}

#define FILL(name, type, element)                                                             \
	(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height)               \
	{                                                                                     \
		return fill_rows(name, to, pitch, value, element, width, height, NULL, false); \
	}
#define FILL_ASYNC(name, type, element)                                                       \
	(CUdeviceptr to, size_t pitch, type value, size_t width, size_t height,               \
	 CUstream stream)                                                                     \
	{                                                                                     \
		return fill_rows(name, to, pitch, value, element, width, height, stream, false); \
	}
STANDIN(cuMemsetD2D8_v2) FILL("cuMemsetD2D8_v2", unsigned char, 1)
STANDIN(cuMemsetD2D16_v2) FILL("cuMemsetD2D16_v2", unsigned short, 2)
STANDIN(cuMemsetD2D32_v2) FILL("cuMemsetD2D32_v2", unsigned int, 4)
STANDIN(cuMemsetD2D8Async) FILL_ASYNC("cuMemsetD2D8Async", unsigned char, 1)
STANDIN(cuMemsetD2D16Async) FILL_ASYNC("cuMemsetD2D16Async", unsigned short, 2)
STANDIN(cuMemsetD2D32Async) FILL_ASYNC("cuMemsetD2D32Async", unsigned int, 4)
