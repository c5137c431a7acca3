/* SPDX-License-Identifier: MIT
 *
 * Private memory for our own tables, straight from mmap: the application's allocator is
 * never called from a wrapper (it may be the thing that is being debugged, and it may
 * call us). Blocks are reused by size class and never given back.
 */
#ifndef GPULEAK_ARENA_H
#define GPULEAK_ARENA_H

#include <stddef.h>

#include "ledger/lock.h"

#define ARENA_CLASSES 40

struct arena {
	struct lock lock;
	char *at, *end;
	void *spare[ARENA_CLASSES];
};

/* Zeroed memory of at least SIZE bytes, 64-byte aligned; NULL when there is none. */
void *arena_take(struct arena *arena, size_t size);
void arena_give(struct arena *arena, void *memory, size_t size);

#endif
