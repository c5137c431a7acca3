/* SPDX-License-Identifier: MIT
 *
 * A bump allocator with one list of free blocks for each power of two. Owns memory only; must
 * not call malloc.
 */
#include "interpose/base/arena.h"

#include <stdbool.h>
#include <string.h>

#include "interpose/base/pages.h"

#define ARENA_SMALLEST 64u
#define ARENA_SLAB HUGE_PAGE
#define ARENA_SLAB_MIN ((size_t)256 << 10) /* if address space is limited */

static unsigned int size_class_of(size_t size)
{
	unsigned int class = 0;

	while (class < ARENA_CLASSES - 1 && (size_t)ARENA_SMALLEST << class < size)
		class++;
	return class;
}

static bool add_slab(struct arena *arena)
{
	for (size_t size = ARENA_SLAB; size >= ARENA_SLAB_MIN; size /= 2) {
		arena->at = pages_map(size);
		if (!arena->at)
			continue;
		arena->end = arena->at + size;
		return true;
	}
	arena->end = NULL;
	return false;
}

static void *bump(struct arena *arena, size_t size)
{
	void *memory;

	if (size > ARENA_SLAB_MIN)
		return pages_map(size);
	if ((size_t)(arena->end - arena->at) < size && !add_slab(arena))
		return NULL;
	memory = arena->at;
	arena->at += size;
	return memory;
}

void *arena_take(struct arena *arena, size_t size)
{
	unsigned int class = size_class_of(size);
	void *memory;

	lock_take(&arena->lock);
	memory = arena->spare[class];
	if (memory)
		arena->spare[class] = *(void **)memory;
	else
		memory = bump(arena, (size_t)ARENA_SMALLEST << class);
	lock_give(&arena->lock);
	if (memory)
		*(void **)memory = NULL;
	return memory;
}

void arena_give(struct arena *arena, void *memory, size_t size)
{
	unsigned int class = size_class_of(size);

	memset(memory, 0, size); /* arena_take() returns zeroed memory */
	lock_take(&arena->lock);
	*(void **)memory = arena->spare[class];
	arena->spare[class] = memory;
	lock_give(&arena->lock);
}

