/* SPDX-License-Identifier: MIT
 *
 * A bump allocator with one list of free blocks for each power of two. Owns memory only; must
 * not call malloc.
 */
#include "interpose/base/arena.h"

#include <string.h>
#include <sys/mman.h>

#define ARENA_SMALLEST 64u
#define ARENA_SLAB ((size_t)256 << 10)

static unsigned int size_class_of(size_t size)
{
	unsigned int class = 0;

	while (class < ARENA_CLASSES - 1 && (size_t)ARENA_SMALLEST << class < size)
		class++;
	return class;
}

static void *map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static void *bump(struct arena *arena, size_t size)
{
	void *memory;

	if (size > ARENA_SLAB / 4)
		return map(size);
	if ((size_t)(arena->end - arena->at) < size) {
		arena->at = map(ARENA_SLAB);
		arena->end = arena->at ? arena->at + ARENA_SLAB : NULL;
		if (!arena->at)
			return NULL;
	}
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

