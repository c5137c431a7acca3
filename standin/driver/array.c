/* SPDX-License-Identifier: MIT
 *
 * Arrays and mipmapped arrays: handles that a context owns, and bytes that count against its
 * device, without the padding of a real layout. Nothing can be copied into one.
 */
#include <pthread.h>
#include <stdlib.h>

#include "standin/driver/standin.h"

enum { BUCKETS = 1024, MAX_LEVELS = 32 };

enum {
	FLAG_LAYERED = 0x01,
	FLAG_CUBEMAP = 0x04,
	FLAG_GATHER = 0x08,
	/* arrays with this flag or the next take no memory: it is mapped into them later */
	FLAG_SPARSE = 0x40,
	FLAG_DEFERRED = 0x80,
	ALL_FLAGS = 0x1ff,
};

struct CUarray_st {
	struct CUarray_st *next;
	CUcontext context;
	/* of a level: the mipmapped array, with which it ends; NULL: not a level */
	CUmipmappedArray owner;
	/* the block of the heap that is its memory; 0: it has none of its own */
	CUdeviceptr block;
	CUDA_ARRAY3D_DESCRIPTOR shape;
};

struct CUmipmappedArray_st {
	struct CUmipmappedArray_st *next;
	CUcontext context;
	CUdeviceptr block;
	unsigned int levels;
	CUarray level[MAX_LEVELS];
};

static pthread_mutex_t array_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUarray_st *buckets[BUCKETS];
static struct CUmipmappedArray_st *mipmaps;

static struct CUarray_st **bucket_of(CUarray array)
{
	return &buckets[((uintptr_t)array >> 4) % BUCKETS];
}

static struct CUarray_st **find(CUarray array)
{
	struct CUarray_st **link = bucket_of(array);

	while (*link && *link != array)
		link = &(*link)->next;
	return link;
}

static struct CUmipmappedArray_st **find_mipmap(CUmipmappedArray mipmap)
{
	struct CUmipmappedArray_st **link = &mipmaps;

	while (*link && *link != mipmap)
		link = &(*link)->next;
	return link;
}

static bool is_layered(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	return d->Flags & (FLAG_LAYERED | FLAG_CUBEMAP);
}

/* Returns the bytes of an element, or 0 if the stand-in does not know the format, or not with this
 * number of channels. */
static size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	/* UNORM and SNORM formats, from 0xc0 on: the format defines the number of channels */
	static const unsigned char normalized[] = { 1, 2, 4, 2, 4, 8, 1, 2, 4, 2, 4, 8 };
	size_t channel;

	switch (d->Format) {
	case 0x01: /* UNSIGNED_INT8 */
	case 0x08: /* SIGNED_INT8 */
		channel = 1;
		break;
	case 0x02: /* UNSIGNED_INT16 */
	case 0x09: /* SIGNED_INT16 */
	case 0x10: /* HALF */
		channel = 2;
		break;
	case 0x03: /* UNSIGNED_INT32 */
	case 0x0a: /* SIGNED_INT32 */
	case 0x20: /* FLOAT */
		channel = 4;
		break;
	default:
		return d->Format >= 0xc0 && d->Format <= 0xcb ? normalized[d->Format - 0xc0] : 0;
	}
	return d->NumChannels == 1 || d->NumChannels == 2 || d->NumChannels == 4 ?
		       channel * d->NumChannels : 0;
}

static bool at_most(const CUDA_ARRAY3D_DESCRIPTOR *d, size_t width, size_t height, size_t depth)
{
	return d->Width <= width && d->Height <= height && d->Depth <= depth;
}

/* Returns true if the extents are within the largest textures of compute capability 9. */
static bool fits(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	if (is_layered(d))
		return at_most(d, 32768, 32768, d->Flags & FLAG_CUBEMAP ? 2046 : 2048);
	if (d->Depth)
		return at_most(d, 16384, 16384, 16384);
	return d->Flags & FLAG_GATHER ? at_most(d, 32768, 32768, 0) :
					at_most(d, 131072, 65536, 0);
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	bool good = d->Width && !(d->Flags & ~(unsigned int)ALL_FLAGS) && fits(d);

	if (is_layered(d))
		good = good && d->Depth;
	else
		good = good && (!d->Depth || d->Height);
	if (d->Flags & FLAG_CUBEMAP)
		good = good && d->Width == d->Height &&
		       (d->Flags & FLAG_LAYERED ? d->Depth % 6 == 0 : d->Depth == 6);
	if (d->Flags & FLAG_GATHER)
		good = good && d->Height && !d->Depth;
	if (!good)
		return CUDA_ERROR_INVALID_VALUE;
	if (element_bytes(d))
		return CUDA_SUCCESS;
	/* block-compressed and planar formats, which the stand-in does not support */
	return d->Format == 0x50 || (d->Format >= 0x91 && d->Format <= 0xb5) ?
		       CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

static size_t half(size_t n, unsigned int times)
{
	return n >> times ? n >> times : n > 0;
}

static CUDA_ARRAY3D_DESCRIPTOR level_of(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int level)
{
	CUDA_ARRAY3D_DESCRIPTOR l = *d;

	l.Width = half(d->Width, level);
	l.Height = half(d->Height, level);
	if (!is_layered(d))
		l.Depth = half(d->Depth, level);
	return l;
}

static size_t bytes_of(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels)
{
	size_t sum = 0;

	if (d->Flags & (FLAG_SPARSE | FLAG_DEFERRED))
		return 0;
	for (unsigned int i = 0; i < levels; i++) {
		CUDA_ARRAY3D_DESCRIPTOR l = level_of(d, i);

		sum += element_bytes(d) * l.Width * (l.Height ? l.Height : 1) *
		       (l.Depth ? l.Depth : 1);
	}
	return sum;
}

/* Locking: needs array_lock. The caller adds the array to a list under the same lock, so a context
 * that ends finds all arrays. */
static CUresult take_memory(CUdeviceptr *block, size_t bytes)
{
	if (!bytes)
		return context_usable(standin_thread.current);
	return heap_alloc(block, bytes, BLOCK_ARRAY, memory_context());
}

static void give_memory(CUdeviceptr block)
{
	if (block)
		heap_free(block, FREE_BY_OWNER);
}

static CUarray add(const CUDA_ARRAY3D_DESCRIPTOR *shape, CUmipmappedArray owner, CUdeviceptr block)
{
	CUarray a = malloc(sizeof(*a));

	if (a) {
		*a = (struct CUarray_st){ *bucket_of(a), memory_context(), owner, block,
					  *shape };
		*bucket_of(a) = a;
	}
	return a;
}

static void remove_array(struct CUarray_st **link)
{
	CUarray a = *link;

	*link = a->next;
	give_memory(a->block);
	free(a);
}

static void remove_mipmap(struct CUmipmappedArray_st **link)
{
	CUmipmappedArray m = *link;

	*link = m->next;
	for (unsigned int i = 0; i < m->levels; i++)
		if (m->level[i])
			remove_array(find(m->level[i]));
	give_memory(m->block);
	free(m);
}

/* Call before heap_drop_context(), because this frees the arrays' blocks by their handles. */
void array_drop_context(CUcontext context)
{
	struct CUmipmappedArray_st **mipmap = &mipmaps;

	pthread_mutex_lock(&array_lock);
	while (*mipmap) {
		if ((*mipmap)->context == context)
			remove_mipmap(mipmap);
		else
			mipmap = &(*mipmap)->next;
	}
	for (int i = 0; i < BUCKETS; i++) {
		struct CUarray_st **link = &buckets[i];

		while (*link) {
			if ((*link)->context == context)
				remove_array(link);
			else
				link = &(*link)->next;
		}
	}
	pthread_mutex_unlock(&array_lock);
}

static CUresult begin_create(const char *name, const void *out, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	CUresult r = gate(name);

	if (!r)
		r = context_usable(standin_thread.current);
	if (!r)
		r = capture_check();
	if (!r)
		r = out && d ? check(d) : CUDA_ERROR_INVALID_VALUE;
	return r;
}

static CUresult create(const char *name, CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	CUresult r = begin_create(name, out, d);
	size_t bytes = r ? 0 : bytes_of(d, 1);
	CUdeviceptr block = 0;
	CUarray a = NULL;

	if (!r) {
		pthread_mutex_lock(&array_lock);
		r = take_memory(&block, bytes);
		if (!r) {
			a = add(d, NULL, block);
			if (!a) {
				give_memory(block);
				r = CUDA_ERROR_OUT_OF_MEMORY;
			}
		}
		pthread_mutex_unlock(&array_lock);
	}
	if (!r)
		*out = a;
	return logged(name, (uintptr_t)a, bytes, r);
}

STANDIN(cuArrayCreate)(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray)
{
	const CUDA_ARRAY_DESCRIPTOR_v1 *p = pAllocateArray;
	CUDA_ARRAY3D_DESCRIPTOR d;

	if (p)
		d = (CUDA_ARRAY3D_DESCRIPTOR){ p->Width, p->Height, 0, p->Format, p->NumChannels,
					       0 };
	return create("cuArrayCreate", pHandle, p ? &d : NULL);
}

STANDIN(cuArrayCreate_v2)(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
	const CUDA_ARRAY_DESCRIPTOR *p = pAllocateArray;
	CUDA_ARRAY3D_DESCRIPTOR d;

	if (p)
		d = (CUDA_ARRAY3D_DESCRIPTOR){ p->Width, p->Height, 0, p->Format, p->NumChannels,
					       0 };
	return create("cuArrayCreate_v2", pHandle, p ? &d : NULL);
}

STANDIN(cuArray3DCreate)(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray)
{
	const CUDA_ARRAY3D_DESCRIPTOR_v1 *p = pAllocateArray;
	CUDA_ARRAY3D_DESCRIPTOR d;

	if (p)
		d = (CUDA_ARRAY3D_DESCRIPTOR){ p->Width,  p->Height,	  p->Depth,
					       p->Format, p->NumChannels, p->Flags };
	return create("cuArray3DCreate", pHandle, p ? &d : NULL);
}

STANDIN(cuArray3DCreate_v2)(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	return create("cuArray3DCreate_v2", pHandle, pAllocateArray);
}

/* Returns the error of a destroying call. Like a free, it is allowed without a current context, but
 * not if the current context is destroyed. */
static CUresult begin_destroy(const char *name)
{
	CUresult r = gate(name);

	if (!r && standin_thread.current)
		r = context_usable(standin_thread.current);
	return r ? r : capture_check();
}

STANDIN(cuArrayDestroy)(CUarray hArray)
{
	CUresult r = begin_destroy("cuArrayDestroy");
	struct CUarray_st **link;

	if (!r) {
		pthread_mutex_lock(&array_lock);
		link = find(hArray);
		if (hArray && *link && !(*link)->owner)
			remove_array(link);
		else
			r = ERROR_INVALID_HANDLE;
		pthread_mutex_unlock(&array_lock);
	}
	return logged("cuArrayDestroy", (uintptr_t)hArray, 0, r);
}

static CUresult describe(const char *name, CUarray array, const void *out,
			 CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	CUresult r = gate(name);
	CUarray a;

	if (!r)
		r = context_usable(standin_thread.current);
	if (r)
		return r;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&array_lock);
	a = array ? *find(array) : NULL;
	if (a)
		*shape = a->shape;
	else
		r = ERROR_INVALID_HANDLE;
	pthread_mutex_unlock(&array_lock);
	return r;
}

STANDIN(cuArrayGetDescriptor)(CUDA_ARRAY_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult r = describe("cuArrayGetDescriptor", hArray, pArrayDescriptor, &d);

	if (!r)
		*pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR_v1){ (unsigned int)d.Width,
								(unsigned int)d.Height, d.Format,
								d.NumChannels };
	return r;
}

STANDIN(cuArrayGetDescriptor_v2)(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult r = describe("cuArrayGetDescriptor_v2", hArray, pArrayDescriptor, &d);

	if (!r)
		*pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){ d.Width, d.Height, d.Format,
							     d.NumChannels };
	return r;
}

STANDIN(cuArray3DGetDescriptor)(CUDA_ARRAY3D_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult r = describe("cuArray3DGetDescriptor", hArray, pArrayDescriptor, &d);

	if (!r)
		*pArrayDescriptor = (CUDA_ARRAY3D_DESCRIPTOR_v1){
			(unsigned int)d.Width, (unsigned int)d.Height, (unsigned int)d.Depth,
			d.Format,	       d.NumChannels,	       d.Flags
		};
	return r;
}

STANDIN(cuArray3DGetDescriptor_v2)(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult r = describe("cuArray3DGetDescriptor_v2", hArray, pArrayDescriptor, &d);

	if (!r)
		*pArrayDescriptor = d;
	return r;
}

/* Returns WANTED, limited to at least 1 and to the level at which all extents are 1. */
static unsigned int clamp_levels(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int wanted)
{
	size_t extent = d->Width > d->Height ? d->Width : d->Height;
	unsigned int most = 0;

	if (!is_layered(d) && d->Depth > extent)
		extent = d->Depth;
	for (; extent; extent /= 2)
		most++;
	if (!wanted)
		return 1;
	return wanted < most ? wanted : most;
}

static CUresult make_mipmap(CUmipmappedArray m, const CUDA_ARRAY3D_DESCRIPTOR *d, size_t bytes)
{
	CUresult r = take_memory(&m->block, bytes);

	m->context = memory_context();
	m->next = mipmaps;
	mipmaps = m;
	for (unsigned int i = 0; !r && i < m->levels; i++) {
		CUDA_ARRAY3D_DESCRIPTOR l = level_of(d, i);

		m->level[i] = add(&l, m, 0);
		if (!m->level[i])
			r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r)
		remove_mipmap(&mipmaps);
	return r;
}

/* LENT: the memory belongs to an external object. */
static CUresult create_mipmap(const char *name, CUmipmappedArray *out,
			      const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels, bool lent,
			      CUresult r)
{
	CUmipmappedArray m = NULL;
	size_t bytes = 0;

	if (!r) {
		m = calloc(1, sizeof(*m));
		r = m ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!r) {
		m->levels = clamp_levels(d, levels);
		bytes = bytes_of(d, m->levels);
		pthread_mutex_lock(&array_lock);
		r = make_mipmap(m, d, lent ? 0 : bytes);
		pthread_mutex_unlock(&array_lock);
	}
	if (!r)
		*out = m;
	return logged(name, r ? 0 : (uintptr_t)m, bytes, r);
}

STANDIN(cuMipmappedArrayCreate)
(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
 unsigned int numMipmapLevels)
{
	CUresult r = begin_create("cuMipmappedArrayCreate", pHandle, pMipmappedArrayDesc);

	return create_mipmap("cuMipmappedArrayCreate", pHandle, pMipmappedArrayDesc,
			     numMipmapLevels, false, r);
}

CUresult array_map_external(const char *name, CUmipmappedArray *out,
			    const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels, CUresult r)
{
	if (!r)
		r = check(d);
	return create_mipmap(name, out, d, levels, true, r);
}

/* Returns the same handle for a level each time. */
STANDIN(cuMipmappedArrayGetLevel)
(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned int level)
{
	CUresult r = gate("cuMipmappedArrayGetLevel");
	CUmipmappedArray m;

	if (!r)
		r = context_usable(standin_thread.current);
	if (r)
		return r;
	if (!pLevelArray)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&array_lock);
	m = hMipmappedArray ? *find_mipmap(hMipmappedArray) : NULL;
	if (!m)
		r = ERROR_INVALID_HANDLE;
	else if (level >= m->levels)
		r = CUDA_ERROR_INVALID_VALUE;
	else
		*pLevelArray = m->level[level];
	pthread_mutex_unlock(&array_lock);
	return r;
}

STANDIN(cuMipmappedArrayDestroy)(CUmipmappedArray hMipmappedArray)
{
	CUresult r = begin_destroy("cuMipmappedArrayDestroy");
	struct CUmipmappedArray_st **link;

	if (!r) {
		pthread_mutex_lock(&array_lock);
		link = find_mipmap(hMipmappedArray);
		if (hMipmappedArray && *link)
			remove_mipmap(link);
		else
			r = ERROR_INVALID_HANDLE;
		pthread_mutex_unlock(&array_lock);
	}
	return logged("cuMipmappedArrayDestroy", (uintptr_t)hMipmappedArray, 0, r);
}
