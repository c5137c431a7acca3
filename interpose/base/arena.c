/* SPDX-License-Identifier: MIT
 *
 * A bump allocator with one list of free blocks for each power of two. Owns memory only; must
 * not call malloc.
 */
#include "interpose/base/arena.h"

#include "interpose/base/at_end.h"

#include <stdbool.h>
#include <string.h>

#include "ledger/writer.h"

#define ARENA_SMALLEST 64u
#define ARENA_SLAB HUGE_PAGE
#define ARENA_SLAB_SMALL ((size_t)256 << 10) /* if little address space is left */
/* a large slab takes at most this share (1/64) of the address space left by RLIMIT_AS */
#define SLAB_SHARE 64u

static unsigned int size_class_of(size_t size)
{
	unsigned int class = 0;

	while (class < ARENA_CLASSES - 1 && (size_t)ARENA_SMALLEST << class < size)
		class++;
	return class;
}

static void *map_noted(struct arena *arena, size_t bytes)
{
	void *memory = pages_map(bytes);

	if (memory && arena->mappings < ARENA_MAPPINGS) {
		arena->mapping[arena->mappings].at = memory;
		arena->mapping[arena->mappings++].bytes = bytes;
	}
	return memory;
}

void arena_release(struct arena *arena)
{
	for (unsigned int i = 0; i < arena->mappings; i++)
		munmap(arena->mapping[i].at, arena->mapping[i].bytes);
	arena->mappings = 0;
}

static bool add_slab(struct arena *arena)
{
	const bool large = ledger_address_space_left() / SLAB_SHARE >= ARENA_SLAB;
	const size_t bytes = large ? ARENA_SLAB : ARENA_SLAB_SMALL;

	arena->at = map_noted(arena, bytes);
	arena->end = arena->at ? arena->at + bytes : NULL;
	return arena->at;
}

static void *bump(struct arena *arena, size_t size)
{
	void *memory;

	if (size > ARENA_SLAB_SMALL)
		return map_noted(arena, size);
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
	HOLD(&arena->lock);
	*(void **)memory = arena->spare[class];
	arena->spare[class] = memory;
}

