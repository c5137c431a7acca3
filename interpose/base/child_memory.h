/* SPDX-License-Identifier: MIT
 *
 * Memory whose bytes are all zero in a forked child, however the process forks. The kernel clears
 * it (MADV_WIPEONFORK). If the kernel cannot do that, the caller uses a fallback: static memory
 * that an atfork handler clears. Then the bytes are not cleared in a child that was not made by
 * fork() of libc.
 */
#pragma once

#include <stddef.h>

/* Returns BYTES zero bytes of memory that the kernel clears in a forked child, or NULL if it cannot
 * do that. The caller ends it with munmap(). Changes errno. Any thread may call it. */
void *child_memory_map(size_t bytes);

/* Makes an atfork handler clear the BYTES at MEMORY in each forked child. Call at most once for
 * each of the CHILD_MEMORY_FALLBACKS fallbacks. Any thread may call it. */
#define CHILD_MEMORY_FALLBACKS 2
void child_memory_fall_back(void *memory, size_t bytes);
