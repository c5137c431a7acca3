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

/* A number with what is in it: the handle. */
struct physical {
	struct physical *next;
	size_t references, mappings, bindings, imports;
	size_t bytes;
	CUdeviceptr block; /* the heap's; 0: host memory, another process's, or none */
	CUmemAllocationProp prop;
	struct physical *of; /* an imported handle's memory, where it is this process's */
	struct team *team;   /* of a multicast object */
};

extern pthread_mutex_t virtual_lock;

static inline bool in_grains(uint64_t n)
{
	return n % GRANULARITY == 0;
}

/* All with virtual_lock held. */
struct physical *referenced(CUmemGenericAllocationHandle handle);
struct physical *mapped_at(CUdeviceptr inside, size_t bytes); /* NULL: not, or not all of it */
void link_physical(struct physical *p);
void drop_unused(struct physical *p);

/* multicast.c; with the lock too */
void team_end(struct team *team);
bool team_complete(const struct team *team);
unsigned int team_size(const struct team *team);
struct team *team_make(unsigned int devices);

#endif
