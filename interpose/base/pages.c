/* SPDX-License-Identifier: MIT
 *
 * Maps memory, in huge pages if it is large enough for one. Owns no memory.
 */
#include "interpose/base/arena.h"

#include <stdint.h>
#include <unistd.h>

static void *map(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Returns BYTES of memory at a multiple of HUGE_PAGE, or NULL if there is no room. BYTES is a
 * multiple of the page size. */
static void *map_aligned(size_t bytes)
{
	uint8_t *memory = map(bytes + HUGE_PAGE);
	size_t before = -(uintptr_t)memory % HUGE_PAGE;

	if (!memory)
		return NULL;
	if (before)
		munmap(memory, before);
	munmap(memory + before + bytes, HUGE_PAGE - before);
	return memory + before;
}

void *pages_map(size_t bytes)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = NULL;

	bytes += -bytes % page;
	if (bytes >= HUGE_PAGE)
		memory = map_aligned(bytes);
	if (!memory)
		return map(bytes);
	madvise(memory, bytes, MADV_HUGEPAGE); /* a kernel without huge pages refuses it */
	return memory;
}
