/* SPDX-License-Identifier: MIT
 *
 * Virtual memory management: physical memory by handle, reserved addresses, and mappings of
 * physical memory at reserved addresses. None of these belongs to a context. Physical memory lives
 * as long as its handle is referenced, it is mapped, or it is bound to a multicast object. A block
 * of the heap counts it against its device.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "standin/driver/virtual.h"

#define PAGE ((size_t)4096)

/* Above the heap's addresses. Nothing of the host is mapped here, either. */
#define RANGE_BASE (1ull << 44)
#define RANGE_END (1ull << 45)

/* A reservation or a mapping. Each kind has a list, sorted by address. */
struct address_range {
	struct address_range *next;
	CUdeviceptr address;
	size_t bytes;
	struct physical *physical; /* of a mapping */
};

pthread_mutex_t virtual_lock = PTHREAD_MUTEX_INITIALIZER;
static struct physical *physicals;
static struct address_range *reservations, *mappings;

/* Returns the link to the first range that ends above ADDRESS. */
static struct address_range **first_above(struct address_range **list, CUdeviceptr address)
{
	while (*list && (*list)->address + (*list)->bytes <= address)
		list = &(*list)->next;
	return list;
}

static bool is_clear(struct address_range **list, CUdeviceptr address, size_t bytes)
{
	struct address_range *r = *first_above(list, address);

	return !r || (r->address >= address && r->address - address >= bytes);
}

/* Returns the link to the first of the mappings that together cover exactly the range, or NULL if
 * there are none. */
static struct address_range **whole_mappings(CUdeviceptr address, size_t bytes)
{
	struct address_range **first = first_above(&mappings, address), *r = *first;
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

static bool insert(struct address_range **list, CUdeviceptr address, size_t bytes,
		   struct physical *of)
{
	struct address_range **link = first_above(list, address), *r = malloc(sizeof(*r));

	if (!r)
		return false;
	*r = (struct address_range){ *link, address, bytes, of };
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

struct physical *referenced(CUmemGenericAllocationHandle handle)
{
	struct physical *p = *find_physical(handle);

	return p && p->references ? p : NULL;
}

void link_physical(struct physical *p)
{
	p->next = physicals;
	physicals = p;
}

void drop_unused(struct physical *p)
{
	struct physical **link = find_physical((uintptr_t)p), *of = p->of;

	if (p->references || p->mappings || p->bindings || p->imports)
		return;
	*link = p->next;
	if (p->team)
		team_end(p->team);
	if (p->block)
		heap_free(p->block, FREE_BY_OWNER);
	free(p);
	if (of) {
		of->imports--;
		drop_unused(of);
	}
}

struct physical *mapped_at(CUdeviceptr inside, size_t bytes)
{
	struct address_range *m = *first_above(&mappings, inside);

	return m && m->address <= inside && bytes <= m->bytes - (inside - m->address) ?
		       m->physical : NULL;
}

bool virtual_is(CUdeviceptr address)
{
	return address >= RANGE_BASE && address < RANGE_END;
}

bool virtual_memory(CUdeviceptr address, size_t bytes, CUdeviceptr *ret)
{
	struct address_range *m;
	bool hit;

	pthread_mutex_lock(&virtual_lock);
	m = *first_above(&mappings, address);
	hit = m && m->address <= address && bytes <= m->bytes - (address - m->address);
	if (hit) /* a mapping begins at the begin of its memory, unless it is a multicast object */
		*ret = m->physical->block ? m->physical->block + (address - m->address) : 0;
	pthread_mutex_unlock(&virtual_lock);
	return hit;
}

bool virtual_find(CUdeviceptr inside, struct block *found)
{
	struct address_range *r;
	bool hit;

	if (!virtual_is(inside))
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
	*p = (struct physical){ .references = 1, .bytes = bytes, .block = b.address,
				.prop = *prop };
	link_physical(p);
	*out = p;
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

/* Also returns a handle that was released, as long as the memory is mapped. */
STANDIN(cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle *handle, void *addr)
{
	CUresult r = gate("cuMemRetainAllocationHandle");
	struct physical *p = NULL;
	struct address_range *m;

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

/* Returns HINT if that place is free, else the lowest free address. Returns 0 if there is none. */
static CUdeviceptr find_room(size_t bytes, size_t alignment, CUdeviceptr hint)
{
	CUdeviceptr at = RANGE_BASE;

	if (hint >= RANGE_BASE && hint < RANGE_END && bytes <= RANGE_END - hint &&
	    hint % alignment == 0 && is_clear(&reservations, hint, bytes))
		return hint;
	for (struct address_range *r = reservations; r; r = r->next) {
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

	if (!r && (!ptr || !size || !in_grains(size) || addr % PAGE || flags ||
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
	struct address_range **link = first_above(&reservations, address), *r = *link;

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

/* Physical memory must be mapped as a whole. Of a multicast object any part can be mapped. */
static CUresult check_extent(const struct physical *p, size_t bytes, size_t offset)
{
	if (!p->team)
		return offset || bytes != p->bytes ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
	if (!team_complete(p->team) || !in_grains(offset) || offset > p->bytes ||
	    bytes > p->bytes - offset)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

static CUresult map(CUdeviceptr address, size_t bytes, size_t offset,
		    CUmemGenericAllocationHandle handle)
{
	struct address_range *place = *first_above(&reservations, address);
	struct physical *p = referenced(handle);
	CUresult r = p ? check_extent(p, bytes, offset) : CUDA_ERROR_INVALID_VALUE;

	if (r)
		return r;
	if (!place || place->address > address || bytes > place->address + place->bytes - address ||
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

	if (!r && (!size || flags))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && (!in_grains(ptr) || !in_grains(size)))
		r = CUDA_ERROR_NOT_SUPPORTED;
	if (!r) {
		pthread_mutex_lock(&virtual_lock);
		r = map(ptr, size, offset, handle);
		pthread_mutex_unlock(&virtual_lock);
	}
	return logged("cuMemMap", ptr, size, r);
}

/* Unmaps all mappings in the range, which may have holes. Fails if a mapping lies only partly in
 * the range. */
static CUresult unmap(CUdeviceptr address, size_t bytes)
{
	struct address_range *place = *first_above(&reservations, address);
	struct address_range **first = first_above(&mappings, address), *m;
	CUdeviceptr end = address + bytes;

	if (!bytes || !place || place->address > address ||
	    bytes > place->address + place->bytes - address)
		return CUDA_ERROR_INVALID_VALUE;
	for (m = *first; m && m->address < end; m = m->next)
		if (m->address < address || m->bytes > end - m->address)
			return CUDA_ERROR_INVALID_VALUE;
	while ((m = *first) && m->address < end) {
		*first = m->next;
		m->physical->mappings--;
		drop_unused(m->physical);
		free(m);
	}
	return CUDA_SUCCESS;
}

STANDIN(cuMemUnmap)(CUdeviceptr ptr, size_t size)
{
	CUresult r = gate("cuMemUnmap");

	if (!r) {
		pthread_mutex_lock(&virtual_lock);
		r = unmap(ptr, size);
		pthread_mutex_unlock(&virtual_lock);
	}
	return logged("cuMemUnmap", ptr, size, r);
}

/* ---- shareable handles ---- */

#define EXPORT_MAGIC 0x216465726168735full

/* The content of the file that stands for shared memory. */
struct exported {
	uint64_t magic;
	uint64_t handle;
	uint64_t bytes;
	CUmemAllocationProp prop;
	int32_t process;
	uint32_t team; /* devices of a multicast object; 0: memory */
};

static int export(const struct physical *p)
{
	struct exported what = { EXPORT_MAGIC, (uintptr_t)p, p->bytes, p->prop, getpid(),
				 p->team ? team_size(p->team) : 0 };
	int fd = memfd_create("standin", MFD_CLOEXEC);

	if (fd >= 0 && write(fd, &what, sizeof(what)) != sizeof(what)) {
		close(fd);
		return -1;
	}
	return fd;
}

STANDIN(cuMemExportToShareableHandle)
(void *shareableHandle, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handleType,
 unsigned long long flags)
{
	CUresult r = gate("cuMemExportToShareableHandle");
	struct physical *p;
	int fd = -1;

	if (!r && (!shareableHandle || flags || !handleType))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && handleType != 1)
		r = CUDA_ERROR_NOT_SUPPORTED;
	if (r)
		return r;
	pthread_mutex_lock(&virtual_lock);
	p = referenced(handle);
	if (p && p->prop.requestedHandleTypes & 1)
		fd = export(p);
	pthread_mutex_unlock(&virtual_lock);
	if (fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	*(int *)shareableHandle = fd;
	return CUDA_SUCCESS;
}

/* Locking: needs virtual_lock. Always returns another handle, as the real driver does. */
static struct physical *import(const struct exported *what)
{
	struct physical *p = calloc(1, sizeof(*p)), *of = NULL;

	if (what->process == getpid())
		of = *find_physical(what->handle);
	if (of && of->of)
		of = of->of;
	if (p && what->team)
		p->team = team_make(what->team);
	if (!p || (what->team && !p->team)) {
		free(p);
		return NULL;
	}
	p->references = 1;
	p->bytes = what->bytes;
	p->prop = what->prop;
	p->of = of;
	if (of)
		of->imports++;
	link_physical(p);
	return p;
}

STANDIN(cuMemImportFromShareableHandle)
(CUmemGenericAllocationHandle *handle, void *osHandle, CUmemAllocationHandleType shHandleType)
{
	CUresult r = gate("cuMemImportFromShareableHandle");
	struct exported what = { .magic = 0 };
	struct physical *p = NULL;

	if (!r && (!handle || !shHandleType))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && shHandleType != 1)
		r = CUDA_ERROR_NOT_SUPPORTED;
	if (!r && (pread((int)(intptr_t)osHandle, &what, sizeof(what), 0) != sizeof(what) ||
		   what.magic != EXPORT_MAGIC))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		pthread_mutex_lock(&virtual_lock);
		p = import(&what);
		pthread_mutex_unlock(&virtual_lock);
		r = p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!r)
		*handle = (uintptr_t)p;
	return logged("cuMemImportFromShareableHandle", (uintptr_t)p, r ? 0 : what.bytes, r);
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

/* Checks its arguments and stores nothing, because the stand-in never accesses this memory. */
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
	if (!granularity || (option != 0 && option != 1)) /* 0: minimum, 1: recommended */
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
