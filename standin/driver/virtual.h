/* SPDX-License-Identifier: MIT
 *
 * What virtual.c and multicast.c share: handles of physical memory and of multicast objects.
 * Private to these two.
 */
#ifndef GPULEAK_STANDIN_VIRTUAL_H
#define GPULEAK_STANDIN_VIRTUAL_H

#include <pthread.h>

#include "standin/driver/standin.h"

#define GRANULARITY ((size_t)2 << 20)

/* Physical memory, or a multicast object, with its handle. */
struct physical {
	struct physical *next;
	size_t references, mappings, bindings, imports;
	size_t bytes;
	/* block of the heap; 0: none, or memory of the host or of another process */
	CUdeviceptr block;
	CUmemAllocationProp prop;
	/* of an imported handle: the memory, if this process allocated it; else NULL */
	struct physical *of;
	struct team *team;   /* NULL: not a multicast object */
};

extern pthread_mutex_t virtual_lock;

static inline bool in_grains(uint64_t n)
{
	return n % GRANULARITY == 0;
}

/* Locking: all of these need virtual_lock. */
struct physical *referenced(CUmemGenericAllocationHandle handle);
/* NULL: not all of the range is mapped */
struct physical *mapped_at(CUdeviceptr inside, size_t bytes);
void link_physical(struct physical *p);
void drop_unused(struct physical *p);

/* multicast.c; these need virtual_lock, too */
void team_end(struct team *team);
bool team_complete(const struct team *team);
unsigned int team_size(const struct team *team);
struct team *team_make(unsigned int devices);

#endif
