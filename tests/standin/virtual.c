/* SPDX-License-Identifier: MIT
 *
 * Virtual memory management: physical memory by handle, reserved addresses, and mappings of
 * the one at the other. Nothing of it belongs to a context. Physical memory lives as long as
 * its handle is referenced or it is mapped; it counts against its device through the heap.
 */
#include <pthread.h>
#include <stdlib.h>

#include "standin.h"

#define GRANULARITY ((size_t)2 << 20)
#define PAGE ((size_t)4096)

/* Above the heap's addresses, and as free of anything of the host. */
#define RANGE_BASE (1ull << 44)
#define RANGE_END (1ull << 45)

struct physical {
	struct physical *next;
	size_t references, mappings;
	size_t bytes;
	CUdeviceptr block; /* the heap's; 0: host memory */
	CUmemAllocationProp prop;
};

/* Both kinds of ranges lie in lists sorted by address. */
struct range {
	struct range *next;
	CUdeviceptr address;
	size_t bytes;
	struct physical *physical; /* of a mapping */
};

static pthread_mutex_t virtual_lock = PTHREAD_MUTEX_INITIALIZER;
static struct physical *physicals;
static struct range *reservations, *mappings;

static bool in_grains(uint64_t n)
{
	return n % GRANULARITY == 0;
}

/* The link to the first range that ends above the address. */
static struct range **first_above(struct range **list, CUdeviceptr address)
{
	while (*list && (*list)->address + (*list)->bytes <= address)
		list = &(*list)->next;
	return list;
}

static bool is_clear(struct range **list, CUdeviceptr address, size_t bytes)
{
	struct range *r = *first_above(list, address);

	return !r || (r->address >= address && r->address - address >= bytes);
}

/* The link to the first of mappings that fill the range from end to end, or NULL. */
static struct range **whole_mappings(CUdeviceptr address, size_t bytes)
{
	struct range **first = first_above(&mappings, address), *r = *first;
	CUdeviceptr at = address;

	if (!bytes)
		return NULL;
	while (r && r->address == at && r->bytes <= address + bytes - at) {
		at += r->bytes;
		if (at == address + bytes)
			return first;
		r = r->next;
	}
	return NULL;
}

static bool insert(struct range **list, CUdeviceptr address, size_t bytes, struct physical *of)
{
	struct range **link = first_above(list, address), *r = malloc(sizeof(*r));

	if (!r)
		return false;
	*r = (struct range){ *link, address, bytes, of };
	*link = r;
	return true;
}

static struct physical **find_physical(CUmemGenericAllocationHandle handle)
{
	struct physical **link = &physicals;

	while (*link && (uintptr_t)*link != handle)
		link = &(*link)->next;
	return link;
}

static struct physical *referenced(CUmemGenericAllocationHandle handle)
{
	struct physical *p = *find_physical(handle);

	return p && p->references ? p : NULL;
}

static void drop_unused(struct physical *p)
{
	struct physical **link = find_physical((uintptr_t)p);

	if (p->references || p->mappings)
		return;
	*link = p->next;
	if (p->block)
		heap_free(p->block, FREE_BY_OWNER);
	free(p);
}

bool virtual_find(CUdeviceptr inside, struct block *found)
{
	struct range *r;
	bool hit;

	if (inside < RANGE_BASE || inside >= RANGE_END)
		return false;
	pthread_mutex_lock(&virtual_lock);
	r = *first_above(&mappings, inside);
	hit = r && r->address <= inside;
	if (hit)
		*found = (struct block){ .address = r->address, .bytes = r->bytes,
					 .kind = BLOCK_PHYSICAL,
					 .device = r->physical->block ?
							   r->physical->prop.location.id : 0 };
	pthread_mutex_unlock(&virtual_lock);
	return hit;
}

static CUresult check_properties(const CUmemAllocationProp *prop)
{
	if (!prop || prop->type != ALLOCATION_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->location.type == LOCATION_DEVICE) {
		if (bad_device(prop->location.id))
			return ERROR_INVALID_DEVICE;
	} else if ((prop->location.type != LOCATION_HOST &&
		    prop->location.type != LOCATION_HOST_NUMA) ||
		   prop->requestedHandleTypes) {
		return CUDA_ERROR_INVALID_VALUE;
	}
	/* 1: a file descriptor */
	return prop->requestedHandleTypes & ~1 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static CUresult create(struct physical **out, size_t bytes, const CUmemAllocationProp *prop)
{
	struct block b = { .bytes = bytes, .kind = BLOCK_PHYSICAL };
	struct physical *p = malloc(sizeof(*p));
	CUresult r = p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	if (!r && prop->location.type == LOCATION_DEVICE) {
		b.device = prop->location.id;
		r = heap_take(&b);
	}
	if (r) {
		free(p);
		return r;
	}
	pthread_mutex_lock(&virtual_lock);
	*p = (struct physical){ physicals, 1, 0, bytes, b.address, *prop };
	physicals = *out = p;
	pthread_mutex_unlock(&virtual_lock);
	return CUDA_SUCCESS;
}

STANDIN(cuMemCreate)
(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
 unsigned long long flags)
{
	CUresult r = gate("cuMemCreate");
	struct physical *p = NULL;

	if (!r && (!handle || !size || !in_grains(size) || flags))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = check_properties(prop);
	if (!r)
		r = create(&p, size, prop);
	if (!r)
		*handle = (uintptr_t)p;
	return logged("cuMemCreate", (uintptr_t)p, size, r);
}

STANDIN(cuMemRelease)(CUmemGenericAllocationHandle handle)
{
	CUresult r = gate("cuMemRelease");
	struct physical *p;

	if (!r) {
		pthread_mutex_lock(&virtual_lock);
		p = referenced(handle);
		if (p) {
			p->references--;
			drop_unused(p);
		} else {
			r = CUDA_ERROR_INVALID_VALUE;
		}
		pthread_mutex_unlock(&virtual_lock);
	}
	return logged("cuMemRelease", handle, 0, r);
}

/* Brings back a handle that was released, as long as the memory is mapped. */
STANDIN(cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle *handle, void *addr)
{
	CUresult r = gate("cuMemRetainAllocationHandle");
	struct physical *p = NULL;
	struct range *m;

	if (!r && !handle)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		pthread_mutex_lock(&virtual_lock);
		m = *first_above(&mappings, (uintptr_t)addr);
		if (m && m->address <= (uintptr_t)addr) {
			p = m->physical;
			p->references++;
			*handle = (uintptr_t)p;
		} else {
			r = CUDA_ERROR_INVALID_VALUE;
		}
		pthread_mutex_unlock(&virtual_lock);
	}
	return logged("cuMemRetainAllocationHandle", (uintptr_t)p, 0, r);
}

/* The hint, if the place is free; else the lowest that is. 0: none. */
static CUdeviceptr find_room(size_t bytes, size_t alignment, CUdeviceptr hint)
{
	CUdeviceptr at = RANGE_BASE;

	if (hint >= RANGE_BASE && hint < RANGE_END && bytes <= RANGE_END - hint &&
	    hint % alignment == 0 && is_clear(&reservations, hint, bytes))
		return hint;
	for (struct range *r = reservations; r; r = r->next) {
		if (at <= r->address && r->address - at >= bytes)
			return at;
		at = (r->address + r->bytes + alignment - 1) & ~(CUdeviceptr)(alignment - 1);
	}
	return at < RANGE_END && bytes <= RANGE_END - at ? at : 0;
}

STANDIN(cuMemAddressReserve)
(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
	CUresult r = gate("cuMemAddressReserve");
	CUdeviceptr at = 0;

	if (!r && (!ptr || !size || size % PAGE || addr % PAGE || flags ||
		   (alignment & (alignment - 1))))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && (size > RANGE_END - RANGE_BASE || alignment > RANGE_BASE))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (!r) {
		pthread_mutex_lock(&virtual_lock);
		at = find_room(size, alignment > GRANULARITY ? alignment : GRANULARITY, addr);
		if (!at || !insert(&reservations, at, size, NULL)) {
			r = CUDA_ERROR_OUT_OF_MEMORY;
			at = 0;
		} else {
			*ptr = at;
		}
		pthread_mutex_unlock(&virtual_lock);
	}
	return logged("cuMemAddressReserve", at, size, r);
}

static CUresult unreserve(CUdeviceptr address, size_t bytes)
{
	struct range **link = first_above(&reservations, address), *r = *link;

	if (!r || r->address != address || r->bytes != bytes ||
	    !is_clear(&mappings, address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	*link = r->next;
	free(r);
	return CUDA_SUCCESS;
}

STANDIN(cuMemAddressFree)(CUdeviceptr ptr, size_t size)
{
	CUresult r = gate("cuMemAddressFree");

	if (!r) {
		pthread_mutex_lock(&virtual_lock);
		r = unreserve(ptr, size);
		pthread_mutex_unlock(&virtual_lock);
	}
	return logged("cuMemAddressFree", ptr, size, r);
}

static CUresult map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle)
{
	struct range *place = *first_above(&reservations, address);
	struct physical *p = referenced(handle);

	if (!p || bytes > p->bytes || !place || place->address > address ||
	    bytes > place->address + place->bytes - address ||
	    !is_clear(&mappings, address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!insert(&mappings, address, bytes, p))
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->mappings++;
	return CUDA_SUCCESS;
}

STANDIN(cuMemMap)
(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
 unsigned long long flags)
{
	CUresult r = gate("cuMemMap");

	if (!r && (!size || !in_grains(ptr) || !in_grains(size) || offset || flags))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		pthread_mutex_lock(&virtual_lock);
		r = map(ptr, size, handle);
		pthread_mutex_unlock(&virtual_lock);
	}
	return logged("cuMemMap", ptr, size, r);
}

static void unmap(struct range **link, CUdeviceptr end)
{
	struct range *m;

	while ((m = *link) && m->address < end) {
		*link = m->next;
		m->physical->mappings--;
		drop_unused(m->physical);
		free(m);
	}
}

STANDIN(cuMemUnmap)(CUdeviceptr ptr, size_t size)
{
	CUresult r = gate("cuMemUnmap");
	struct range **first;

	if (!r) {
		pthread_mutex_lock(&virtual_lock);
		first = whole_mappings(ptr, size);
		if (first)
			unmap(first, ptr + size);
		else
			r = CUDA_ERROR_INVALID_VALUE;
		pthread_mutex_unlock(&virtual_lock);
	}
	return logged("cuMemUnmap", ptr, size, r);
}

static CUresult check_access(const CUmemAccessDesc *desc)
{
	if (desc->flags != 0 && desc->flags != 1 && desc->flags != 3)
		return CUDA_ERROR_INVALID_VALUE;
	if (desc->location.type == LOCATION_DEVICE)
		return bad_device(desc->location.id) ? ERROR_INVALID_DEVICE : CUDA_SUCCESS;
	return desc->location.type == LOCATION_HOST || desc->location.type == LOCATION_HOST_NUMA ?
		       CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Checked, and forgotten: nothing here ever reaches into the memory. */
STANDIN(cuMemSetAccess)
(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult r = gate("cuMemSetAccess");

	if (!r && (!desc || !count))
		r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !r && i < count; i++)
		r = check_access(&desc[i]);
	if (!r) {
		pthread_mutex_lock(&virtual_lock);
		if (!whole_mappings(ptr, size))
			r = CUDA_ERROR_INVALID_VALUE;
		pthread_mutex_unlock(&virtual_lock);
	}
	return logged("cuMemSetAccess", ptr, size, r);
}

STANDIN(cuMemGetAllocationGranularity)
(size_t *granularity, const CUmemAllocationProp *prop, int option)
{
	CUresult r = gate("cuMemGetAllocationGranularity");

	if (r)
		return r;
	if (!granularity || (option != 0 && option != 1)) /* the least, the best */
		return CUDA_ERROR_INVALID_VALUE;
	r = check_properties(prop);
	if (!r)
		*granularity = GRANULARITY;
	return r;
}

STANDIN(cuMemGetAllocationPropertiesFromHandle)
(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	CUresult r = gate("cuMemGetAllocationPropertiesFromHandle");
	struct physical *p;

	if (r)
		return r;
	pthread_mutex_lock(&virtual_lock);
	p = referenced(handle);
	if (p && prop)
		*prop = p->prop;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&virtual_lock);
	return r;
}
