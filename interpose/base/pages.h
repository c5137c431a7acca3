/* SPDX-License-Identifier: MIT
 *
 * Zeroed private memory from mmap. Must not call malloc.
 */
#ifndef GPULEAK_PAGES_H
#define GPULEAK_PAGES_H

#include <stddef.h>

#include "ledger/huge_page.h"

/* Returns BYTES zero bytes, or NULL with errno. If BYTES are at least HUGE_PAGE, the memory begins
 * at a multiple of HUGE_PAGE, if there is room for that, and the kernel is asked for huge pages.
 * The caller ends the memory with munmap(). Any thread may call it. */
void *pages_map(size_t bytes);

#endif
