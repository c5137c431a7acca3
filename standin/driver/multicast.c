/* SPDX-License-Identifier: MIT
 *
 * Multicast objects: handles without memory of their own, to which memory of a team of
 * devices is bound. A binding keeps its memory alive, and ends with the object.
 */
#include <stdlib.h>

#include "standin/driver/virtual.h"

struct binding {
	struct binding *next;
	struct physical *of; /* NULL: memory of a pool */
	int device;
	size_t offset, bytes;
};

struct team {
	unsigned int wanted, added;
	bool has[MAX_DEVICES];
	struct binding *bindings;
};

struct team *team_make(unsigned int devices)
{
	struct team *team = calloc(1, sizeof(*team));

	if (team)
		team->wanted = devices;
	return team;
}

unsigned int team_size(const struct team *team)
{
	return team->wanted;
}

bool team_complete(const struct team *team)
{
	return team->added == team->wanted;
}

static void unbind(struct binding **link)
{
	struct binding *b = *link;

	*link = b->next;
	if (b->of) {
		b->of->bindings--;
		drop_unused(b->of);
	}
	free(b);
}

void team_end(struct team *team)
{
	while (team->bindings)
		unbind(&team->bindings);
	free(team);
}

STANDIN(cuMulticastCreate)
(CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop)
{
	CUresult r = gate("cuMulticastCreate");
	struct physical *p = NULL;

	if (!r && (!mcHandle || !prop || !prop->numDevices || !prop->size || prop->flags ||
		   !in_grains(prop->size) || prop->numDevices > (unsigned int)standin_devices))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && prop->handleTypes & ~1ull)
		r = CUDA_ERROR_NOT_SUPPORTED;
	if (!r) {
		p = calloc(1, sizeof(*p));
		if (p)
			p->team = team_make(prop->numDevices);
		if (!p || !p->team) {
			free(p);
			p = NULL;
			r = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	if (p) {
		p->references = 1;
		p->bytes = prop->size;
		p->prop.requestedHandleTypes = (int)prop->handleTypes;
		pthread_mutex_lock(&virtual_lock);
		link_physical(p);
		pthread_mutex_unlock(&virtual_lock);
		*mcHandle = (uintptr_t)p;
	}
	return logged("cuMulticastCreate", (uintptr_t)p, p ? p->bytes : 0, r);
}

STANDIN(cuMulticastAddDevice)(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
	CUresult r = gate("cuMulticastAddDevice");
	struct physical *p;

	if (!r && bad_device(dev))
		r = ERROR_INVALID_DEVICE;
	if (r)
		return r;
	pthread_mutex_lock(&virtual_lock);
	p = referenced(mcHandle);
	if (p && p->team && !p->team->has[dev] && !team_complete(p->team)) {
		p->team->has[dev] = true;
		p->team->added++;
	} else {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&virtual_lock);
	return r;
}

STANDIN(cuMulticastGetGranularity)
(size_t *granularity, const CUmulticastObjectProp *prop, int option)
{
	CUresult r = gate("cuMulticastGetGranularity");

	if (!r && (!granularity || !prop || (option != 0 && option != 1)))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*granularity = GRANULARITY;
	return r;
}

/* Locking: needs virtual_lock. Checks the place and the memory, and adds the binding. */
static CUresult bind(CUmemGenericAllocationHandle object, size_t offset, struct physical *of,
		     int device, size_t bytes)
{
	struct physical *p = referenced(object);
	struct binding *b;

	if (!p || !p->team || !team_complete(p->team) || bad_device(device) ||
	    !p->team->has[device] || !bytes || !in_grains(bytes) || !in_grains(offset) ||
	    offset > p->bytes || bytes > p->bytes - offset)
		return CUDA_ERROR_INVALID_VALUE;
	if (of && p->prop.requestedHandleTypes && !of->prop.requestedHandleTypes)
		return CUDA_ERROR_INVALID_VALUE;
	for (b = p->team->bindings; b; b = b->next)
		if (b->device == device && offset < b->offset + b->bytes &&
		    b->offset < offset + bytes)
			return CUDA_ERROR_INVALID_VALUE;
	b = malloc(sizeof(*b));
	if (!b)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*b = (struct binding){ p->team->bindings, of, device, offset, bytes };
	p->team->bindings = b;
	if (of)
		of->bindings++;
	return CUDA_SUCCESS;
}

STANDIN(cuMulticastBindMem)
(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUmemGenericAllocationHandle memHandle,
 size_t memOffset, size_t size, unsigned long long flags)
{
	CUresult r = gate("cuMulticastBindMem");
	struct physical *of;

	if (!r && (flags || !in_grains(memOffset)))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		pthread_mutex_lock(&virtual_lock);
		of = referenced(memHandle);
		if (!of || of->team || memOffset > of->bytes || size > of->bytes - memOffset)
			r = CUDA_ERROR_INVALID_VALUE;
		else
			r = bind(mcHandle, mcOffset, of, of->prop.location.id, size);
		pthread_mutex_unlock(&virtual_lock);
	}
	return logged("cuMulticastBindMem", mcHandle, size, r);
}

STANDIN(cuMulticastBindAddr)
(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr, size_t size,
 unsigned long long flags)
{
	CUresult r = gate("cuMulticastBindAddr");
	struct physical *of = NULL;
	struct block b = { .bytes = 0 };
	int device = -1;

	if (!r && (flags || !in_grains(memptr)))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && heap_find(memptr, &b) && b.kind == BLOCK_ASYNC && b.bytes >= size)
		device = b.device;
	if (!r) {
		pthread_mutex_lock(&virtual_lock);
		of = device < 0 ? mapped_at(memptr, size) : NULL;
		if (of)
			device = of->team ? -1 : of->prop.location.id;
		r = bind(mcHandle, mcOffset, of, device, size);
		pthread_mutex_unlock(&virtual_lock);
	}
	return logged("cuMulticastBindAddr", mcHandle, size, r);
}

STANDIN(cuMulticastUnbind)
(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size)
{
	CUresult r = gate("cuMulticastUnbind");
	struct binding **link;
	struct physical *p;

	if (!r) {
		pthread_mutex_lock(&virtual_lock);
		p = referenced(mcHandle);
		link = p && p->team ? &p->team->bindings : NULL;
		while (link && *link &&
		       ((*link)->device != dev || (*link)->offset != mcOffset ||
			(*link)->bytes != size))
			link = &(*link)->next;
		if (link && *link)
			unbind(link);
		else
			r = CUDA_ERROR_INVALID_VALUE;
		pthread_mutex_unlock(&virtual_lock);
	}
	return logged("cuMulticastUnbind", mcHandle, size, r);
}
