/* SPDX-License-Identifier: MIT
 *
 * Maps memory that the kernel clears in a forked child, and owns the atfork handler that clears the
 * fallbacks.
 */
#include "interpose/base/child_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

static struct {
	void *memory;
	_Atomic size_t bytes; /* 0: unused, or not filled in yet */
} fallbacks[CHILD_MEMORY_FALLBACKS];
static _Atomic unsigned int fallback_count;

static void wipe_after_fork(void)
{
	for (unsigned int i = 0; i < CHILD_MEMORY_FALLBACKS; i++)
		if (atomic_load(&fallbacks[i].bytes))
			memset(fallbacks[i].memory, 0, atomic_load(&fallbacks[i].bytes));
}

void *child_memory_map(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	if (madvise(memory, bytes, MADV_WIPEONFORK) == 0)
		return memory;
	munmap(memory, bytes);
	return NULL;
}

void child_memory_fall_back(void *memory, size_t bytes)
{
	unsigned int i = atomic_fetch_add(&fallback_count, 1);

	if (i >= CHILD_MEMORY_FALLBACKS)
		return;
	fallbacks[i].memory = memory;
	atomic_store(&fallbacks[i].bytes, bytes);
	pthread_atfork(NULL, NULL, wipe_after_fork);
}
