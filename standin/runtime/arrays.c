/* SPDX-License-Identifier: MIT
 *
 * Arrays, mipmapped arrays, and the objects by which kernels read and write them.
 */
#include "standin/runtime/runtime.h"

/* struct cudaChannelFormatDesc: bits of each component, and what they are */
struct channels {
	int x, y, z, w, kind;
};
enum { KIND_SIGNED, KIND_UNSIGNED, KIND_FLOAT };

/* CUarray_format */
enum { U8 = 1, U16, U32, S8 = 8, S16, S32, F16 = 16, F32 = 32 };

EXPORTED struct channels cudaCreateChannelDesc(int x, int y, int z, int w, int kind)
{
	return (struct channels){ x, y, z, w, kind };
}

static int format_of(int bits, int kind)
{
	const int integer = bits == 8 ? U8 : bits == 16 ? U16 : bits == 32 ? U32 : 0;

	if (kind == KIND_UNSIGNED)
		return integer;
	if (kind == KIND_SIGNED)
		return integer ? integer + (S8 - U8) : 0;
	return kind != KIND_FLOAT ? 0 : bits == 16 ? F16 : bits == 32 ? F32 : 0;
}

static int bits_of(int format, int *kind)
{
	*kind = format == F16 || format == F32 ? KIND_FLOAT :
		format >= S8		       ? KIND_SIGNED : KIND_UNSIGNED;
	return format == F16 ? 16 : format == F32 ? 32 :
	       8 << ((*kind == KIND_SIGNED ? format - (S8 - U8) : format) - 1);
}

/* All components have the same number of bits, and there are 1, 2 or 4. */
static cudaError_t describe(const struct channels *c, const struct extent *extent,
			    unsigned int flags, CUDA_ARRAY3D_DESCRIPTOR *ret)
{
	unsigned int count;

	if (!c)
		return cudaErrorInvalidValue;
	count = 1 + (c->y > 0) + (c->z > 0) + (c->w > 0);
	if (!format_of(c->x, c->kind) || count == 3 || (c->y && c->y != c->x) ||
	    (c->z && c->z != c->x) || (c->w && c->w != c->x))
		return cudaErrorInvalidChannelDescriptor;
	*ret = (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = extent->width,
		.Height = extent->height,
		.Depth = extent->depth,
		.Format = format_of(c->x, c->kind),
		.NumChannels = count,
		.Flags = flags,
	};
	return CUDA_SUCCESS;
}

INLINED cudaError_t make(CUarray *ret, const struct channels *c, const struct extent *extent,
			unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	cudaError_t r = ret ? enter() : cudaErrorInvalidValue;

	if (!r)
		r = describe(c, extent, flags, &d);
	return done(r ? r : driver.cuArray3DCreate(ret, &d));
}

CUDART(cudaMallocArray)
(CUarray *ret, const struct channels *channels, size_t width, size_t height, unsigned int flags)
{
	return make(ret, channels, &(struct extent){ width, height, 0 }, flags);
}

CUDART(cudaMalloc3DArray)
(CUarray *ret, const struct channels *channels, struct extent extent, unsigned int flags)
{
	return make(ret, channels, &extent, flags);
}

CUDART(cudaFreeArray)(CUarray array)
{
	cudaError_t r = enter();

	return done(r || !array ? r : driver.cuArrayDestroy(array));
}

static cudaError_t information(struct channels *channels, struct extent *extent,
			       unsigned int *flags, CUarray array)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	cudaError_t r = enter();
	int bits, kind;

	if (!r)
		r = driver.cuArray3DGetDescriptor(&d, array);
	if (r)
		return r;
	bits = bits_of((int)d.Format, &kind);
	if (channels)
		*channels = (struct channels){ bits, d.NumChannels > 1 ? bits : 0,
					       d.NumChannels > 2 ? bits : 0,
					       d.NumChannels > 3 ? bits : 0, kind };
	if (extent)
		*extent = (struct extent){ d.Width, d.Height, d.Depth };
	if (flags)
		*flags = d.Flags;
	return CUDA_SUCCESS;
}

CUDART(cudaArrayGetInfo)
(struct channels *channels, struct extent *extent, unsigned int *flags, CUarray array)
{
	return done(information(channels, extent, flags, array));
}

CUDART(cudaGetChannelDesc)(struct channels *channels, CUarray array)
{
	return done(channels ? information(channels, NULL, NULL, array) : cudaErrorInvalidValue);
}

CUDART(cudaMallocMipmappedArray)
(CUmipmappedArray *ret, const struct channels *channels, struct extent extent, unsigned int levels,
 unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	cudaError_t r = ret ? enter() : cudaErrorInvalidValue;

	if (!r)
		r = describe(channels, &extent, flags, &d);
	return done(r ? r : driver.cuMipmappedArrayCreate(ret, &d, levels));
}

CUDART(cudaGetMipmappedArrayLevel)(CUarray *ret, CUmipmappedArray array, unsigned int level)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuMipmappedArrayGetLevel(ret, array, level));
}

CUDART(cudaFreeMipmappedArray)(CUmipmappedArray array)
{
	cudaError_t r = enter();

	return done(r || !array ? r : driver.cuMipmappedArrayDestroy(array));
}

/* ---- objects; the driver without a GPU does not read the descriptions ---- */

CUDART(cudaCreateTextureObject)
(CUtexObject *ret, const void *resource, const void *texture, const void *view)
{
	cudaError_t r = ret && resource ? enter() : cudaErrorInvalidValue;

	return done(r ? r : driver.cuTexObjectCreate(ret, resource, texture, view));
}

CUDART(cudaDestroyTextureObject)(CUtexObject object)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuTexObjectDestroy(object));
}

CUDART(cudaCreateSurfaceObject)(CUsurfObject *ret, const void *resource)
{
	cudaError_t r = ret && resource ? enter() : cudaErrorInvalidValue;

	return done(r ? r : driver.cuSurfObjectCreate(ret, resource));
}

CUDART(cudaDestroySurfaceObject)(CUsurfObject object)
{
	cudaError_t r = enter();

	return done(r ? r : driver.cuSurfObjectDestroy(object));
}
