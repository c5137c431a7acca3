/* SPDX-License-Identifier: MIT
 *
 * Copies and fills of linear memory. Arrays have no bytes without a GPU, so copies from and to them
 * return the result of unable().
 */
#include "standin/runtime/runtime.h"

enum { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, ANY };
enum { TYPE_HOST = 1, TYPE_DEVICE, TYPE_ARRAY, TYPE_UNIFIED }; /* CUmemorytype */

static CUdeviceptr address_of(const void *p)
{
	return (CUdeviceptr)(uintptr_t)p;
}

static cudaError_t wait_for(cudaError_t r, CUstream stream)
{
	return r ? r : driver.cuStreamSynchronize(stream);
}

static cudaError_t copy_async(void *to, const void *from, size_t bytes, int kind, CUstream stream)
{
	switch (kind) {
	case HOST_TO_DEVICE:
		return driver.cuMemcpyHtoDAsync(address_of(to), from, bytes, stream);
	case DEVICE_TO_HOST:
		return driver.cuMemcpyDtoHAsync(to, address_of(from), bytes, stream);
	case DEVICE_TO_DEVICE:
		return driver.cuMemcpyDtoDAsync(address_of(to), address_of(from), bytes, stream);
	case HOST_TO_HOST:
	case ANY:
		return driver.cuMemcpyAsync(address_of(to), address_of(from), bytes, stream);
	default:
		return cudaErrorInvalidMemcpyDirection;
	}
}

static cudaError_t copy_now(void *to, const void *from, size_t bytes, int kind)
{
	switch (kind) {
	case HOST_TO_DEVICE:
		return driver.cuMemcpyHtoD(address_of(to), from, bytes);
	case DEVICE_TO_HOST:
		return driver.cuMemcpyDtoH(to, address_of(from), bytes);
	case DEVICE_TO_DEVICE:
		return driver.cuMemcpyDtoD(address_of(to), address_of(from), bytes);
	case HOST_TO_HOST:
	case ANY:
		return driver.cuMemcpy(address_of(to), address_of(from), bytes);
	default:
		return cudaErrorInvalidMemcpyDirection;
	}
}

cudaError_t copy_any(CUstream stream, void *to, const void *from, size_t bytes, bool wait)
{
	if (wait && !stream)
		return copy_now(to, from, bytes, ANY);
	return wait ? wait_for(copy_async(to, from, bytes, ANY, stream), stream) :
		      copy_async(to, from, bytes, ANY, stream);
}

CUDART_WAITS(cudaMemcpy, (to, from, bytes, kind), void *to, const void *from, size_t bytes,
	     int kind)
{
	cudaError_t r = enter();

	if (r)
		return done(r);
	return done(stream ? wait_for(copy_async(to, from, bytes, kind, stream), stream) :
			     copy_now(to, from, bytes, kind));
}

CUDART_STREAM(cudaMemcpyAsync,
	      (void *to, const void *from, size_t bytes, int kind, CUstream stream),
	      (to, from, bytes, kind, stream))
{
	cudaError_t r = enter();

	return done(r ? r : copy_async(to, from, bytes, kind, stream));
}

static cudaError_t copy_peer(void *to, int to_device, const void *from, int from_device,
			     size_t bytes, CUstream stream, bool wait)
{
	CUcontext to_context, from_context;
	cudaError_t r = enter();

	if (!r)
		r = primary_context(to_device, &to_context);
	if (!r)
		r = primary_context(from_device, &from_context);
	if (r)
		return r;
	return wait ? driver.cuMemcpyPeer(address_of(to), to_context, address_of(from),
					  from_context, bytes) :
		      driver.cuMemcpyPeerAsync(address_of(to), to_context, address_of(from),
					       from_context, bytes, stream);
}

CUDART(cudaMemcpyPeer)(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
	return done(copy_peer(to, to_device, from, from_device, bytes, NULL, true));
}

CUDART(cudaMemcpyPeerAsync)
(void *to, int to_device, const void *from, int from_device, size_t bytes, CUstream stream)
{
	return done(copy_peer(to, to_device, from, from_device, bytes, stream, false));
}

/* ---- rows ---- */

/* CUDA_MEMCPY2D_v2 */
struct copy_2d {
	struct {
		size_t x, y;
		int type;
		const void *host;
		CUdeviceptr device;
		CUarray array;
		size_t pitch;
	} from, to;
	size_t width, height;
};

static cudaError_t copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch,
			     size_t width, size_t height, int kind, CUstream stream, bool wait)
{
	struct copy_2d c = {
		.from = { .type = TYPE_UNIFIED, .device = address_of(from), .pitch = from_pitch },
		.to = { .type = TYPE_UNIFIED, .device = address_of(to), .pitch = to_pitch },
		.width = width,
		.height = height,
	};
	cudaError_t r = enter();

	if (r)
		return r;
	if (kind < HOST_TO_HOST || kind > ANY)
		return cudaErrorInvalidMemcpyDirection;
	if (width > to_pitch || width > from_pitch)
		return cudaErrorInvalidPitchValue;
	if (kind == HOST_TO_DEVICE || kind == DEVICE_TO_DEVICE)
		c.to.type = TYPE_DEVICE;
	if (kind == DEVICE_TO_HOST || kind == DEVICE_TO_DEVICE)
		c.from.type = TYPE_DEVICE;
	if (wait && !stream)
		return driver.cuMemcpy2DUnaligned(&c);
	r = driver.cuMemcpy2DAsync(&c, stream);
	return wait ? wait_for(r, stream) : r;
}

CUDART_WAITS(cudaMemcpy2D, (to, to_pitch, from, from_pitch, width, height, kind), void *to,
	     size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
	     int kind)
{
	return done(copy_rows(to, to_pitch, from, from_pitch, width, height, kind, stream, true));
}

CUDART_STREAM(cudaMemcpy2DAsync,
	      (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
	       size_t height, int kind, CUstream stream),
	      (to, to_pitch, from, from_pitch, width, height, kind, stream))
{
	return done(copy_rows(to, to_pitch, from, from_pitch, width, height, kind, stream, false));
}

/* struct cudaPos, struct cudaMemcpy3DParms */
struct position {
	size_t x, y, z;
};
struct copy_box {
	CUarray from_array;
	struct position from_position;
	struct pitched from;
	CUarray to_array;
	struct position to_position;
	struct pitched to;
	struct extent extent;
	int kind;
};

/* CUDA_MEMCPY3D_v2 */
struct copy_3d {
	struct end {
		size_t x, y, z, level;
		int type;
		const void *host;
		CUdeviceptr device;
		CUarray array;
		void *reserved;
		size_t pitch, height;
	} from, to;
	size_t width, height, depth;
};

static struct end end_of(CUarray array, const struct position *at, const struct pitched *linear)
{
	return (struct end){
		.x = at->x, .y = at->y, .z = at->z,
		.type = array ? TYPE_ARRAY : TYPE_UNIFIED,
		.array = array,
		.device = address_of(linear->address),
		.pitch = linear->pitch,
		.height = linear->height,
	};
}

static cudaError_t copy_planes(const struct copy_box *p, CUstream stream, bool wait)
{
	cudaError_t r = p ? enter() : cudaErrorInvalidValue;
	struct copy_3d c;

	if (r)
		return r;
	if (p->kind < HOST_TO_HOST || p->kind > ANY)
		return cudaErrorInvalidMemcpyDirection;
	c = (struct copy_3d){ end_of(p->from_array, &p->from_position, &p->from),
			      end_of(p->to_array, &p->to_position, &p->to),
			      p->extent.width, p->extent.height, p->extent.depth };
	if (wait && !stream)
		return driver.cuMemcpy3D(&c);
	r = driver.cuMemcpy3DAsync(&c, stream);
	return wait ? wait_for(r, stream) : r;
}

CUDART_WAITS(cudaMemcpy3D, (p), const struct copy_box *p)
{
	return done(copy_planes(p, stream, true));
}

CUDART_STREAM(cudaMemcpy3DAsync, (const struct copy_box *p, CUstream stream), (p, stream))
{
	return done(copy_planes(p, stream, false));
}

/* ---- fills ---- */

CUDART_WAITS(cudaMemset, (to, value, bytes), void *to, int value, size_t bytes)
{
	cudaError_t r = enter();

	if (!r && stream)
		r = driver.cuMemsetD8Async(address_of(to), (unsigned char)value, bytes, stream);
	else if (!r)
		r = driver.cuMemsetD8(address_of(to), (unsigned char)value, bytes);
	return done(r);
}

CUDART_STREAM(cudaMemsetAsync, (void *to, int value, size_t bytes, CUstream stream),
	      (to, value, bytes, stream))
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMemsetD8Async(address_of(to), (unsigned char)value, bytes,
						   stream));
}

static cudaError_t fill_rows(void *to, size_t pitch, int value, size_t width, size_t height,
			     CUstream stream)
{
	cudaError_t r = enter();

	return r ? r : driver.cuMemsetD2D8Async(address_of(to), pitch, (unsigned char)value, width,
						height, stream);
}

CUDART_WAITS(cudaMemset2D, (to, pitch, value, width, height), void *to, size_t pitch, int value,
	     size_t width, size_t height)
{
	return done(fill_rows(to, pitch, value, width, height, stream));
}

CUDART_STREAM(cudaMemset2DAsync,
	      (void *to, size_t pitch, int value, size_t width, size_t height, CUstream stream),
	      (to, pitch, value, width, height, stream))
{
	return done(fill_rows(to, pitch, value, width, height, stream));
}

static cudaError_t fill_planes(const struct pitched *to, int value, const struct extent *extent,
			       CUstream stream)
{
	cudaError_t r = CUDA_SUCCESS;

	for (size_t z = 0; z < extent->depth && !r; z++)
		r = fill_rows((char *)to->address + z * to->pitch * to->height, to->pitch, value,
			      extent->width, extent->height, stream);
	return r;
}

CUDART_WAITS(cudaMemset3D, (to, value, extent), struct pitched to, int value, struct extent extent)
{
	return done(fill_planes(&to, value, &extent, stream));
}

CUDART_STREAM(cudaMemset3DAsync,
	      (struct pitched to, int value, struct extent extent, CUstream stream),
	      (to, value, extent, stream))
{
	return done(fill_planes(&to, value, &extent, stream));
}

/* ---- arrays ---- */

CUDART_UNABLE(cudaMemcpy2DToArray)
CUDART_UNABLE(cudaMemcpy2DToArray_ptds)
CUDART_UNABLE(cudaMemcpy2DToArrayAsync)
CUDART_UNABLE(cudaMemcpy2DToArrayAsync_ptsz)
CUDART_UNABLE(cudaMemcpy2DFromArray)
CUDART_UNABLE(cudaMemcpy2DFromArray_ptds)
CUDART_UNABLE(cudaMemcpy2DFromArrayAsync)
CUDART_UNABLE(cudaMemcpy2DFromArrayAsync_ptsz)
CUDART_UNABLE(cudaMemcpy2DArrayToArray)
CUDART_UNABLE(cudaMemcpy2DArrayToArray_ptds)
CUDART_UNABLE(cudaMemcpyToArray)
CUDART_UNABLE(cudaMemcpyToArray_ptds)
CUDART_UNABLE(cudaMemcpyToArrayAsync)
CUDART_UNABLE(cudaMemcpyToArrayAsync_ptsz)
CUDART_UNABLE(cudaMemcpyFromArray)
CUDART_UNABLE(cudaMemcpyFromArray_ptds)
CUDART_UNABLE(cudaMemcpyFromArrayAsync)
CUDART_UNABLE(cudaMemcpyFromArrayAsync_ptsz)
CUDART_UNABLE(cudaMemcpyArrayToArray)
CUDART_UNABLE(cudaMemcpyArrayToArray_ptds)
