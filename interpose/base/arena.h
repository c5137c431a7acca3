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
#include "ledger/huge_page.h"

#define ARENA_CLASSES 40

struct arena {
	struct lock lock;
	char *at, *end;
	void *spare[ARENA_CLASSES];
};

/* Returns zeroed memory of at least SIZE bytes, 64-byte aligned, or NULL. */
void *arena_take(struct arena *arena, size_t size);
void arena_give(struct arena *arena, void *memory, size_t size);

/* ---- pages.c ---- */

/* Maps BYTES of zeroed memory. Returns NULL and sets errno if there is no room. If BYTES is at
 * least HUGE_PAGE, aligns the memory to HUGE_PAGE and requests huge pages for it; without room for
 * the alignment, only maps it. The caller unmaps it with munmap(). Any thread may call this. */
void *pages_map(size_t bytes);

#endif
