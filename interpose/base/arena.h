/* SPDX-License-Identifier: MIT
 *
 * Private memory for gpuleak's tables, from mmap. A wrapper must not call the application's
 * allocator: the user may be debugging that allocator, and it may call gpuleak. Blocks are
 * reused by size class and never unmapped.
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

/* Returns zeroed memory of at least SIZE bytes, 64-byte aligned, or NULL. */
void *arena_take(struct arena *arena, size_t size);
void arena_give(struct arena *arena, void *memory, size_t size);

#endif
