/* SPDX-License-Identifier: MIT
 *
 * Zeroed private memory from mmap. Must not call malloc.
 */
#ifndef GPULEAK_PAGES_H
#define GPULEAK_PAGES_H

#include <stddef.h>

#include "ledger/huge_page.h"

/* Maps BYTES of zeroed memory. Returns NULL and sets errno if there is no room. If BYTES is at
 * least HUGE_PAGE, aligns the memory to HUGE_PAGE and requests huge pages for it; without room for
 * the alignment, only maps it. The caller unmaps it with munmap(). Any thread may call this. */
void *pages_map(size_t bytes);

#endif
