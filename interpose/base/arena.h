/* SPDX-License-Identifier: MIT
 *
 * Private memory for gpuleak's tables, from mmap. A wrapper must not call the application's
 * allocator: the user may be debugging that allocator, and it may call gpuleak. Blocks are
 * reused by size class and never unmapped.
 */
#pragma once

#include <stddef.h>

#include "ledger/lock.h"
#include "ledger/huge_page.h"

#define ARENA_CLASSES 40
#define ARENA_MAPPINGS 64u

struct arena {
	struct lock lock;
	char *at, *end;
	void *spare[ARENA_CLASSES];
	/* what arena_release() unmaps; more mappings than these stay */
	struct { void *at; size_t bytes; } mapping[ARENA_MAPPINGS];
	unsigned int mappings;
};

/* Returns zeroed memory of at least SIZE bytes, 64-byte aligned, or NULL. */
void *arena_take(struct arena *arena, size_t size);
void arena_give(struct arena *arena, void *memory, size_t size);

/* Unmaps the memory of ARENA. No thread may use it any more. */
void arena_release(struct arena *arena);

/* ---- pages.c ---- */

/* Maps BYTES of zeroed memory. Returns NULL and sets errno if there is no room. If BYTES is at
 * least HUGE_PAGE, aligns the memory to HUGE_PAGE and requests huge pages for it; without room for
 * the alignment, only maps it. The caller unmaps it with munmap(). Any thread may call this. */
void *pages_map(size_t bytes);
