/* SPDX-License-Identifier: MIT
 *
 * Constants for huge pages. Between two calls of gpuleak the application reads much other memory.
 * So the processor has to find the addresses of gpuleak's pages again at each call, because its TLB
 * (the cache of these addresses) has no room for all. One huge page takes the place of 512 pages.
 */
#pragma once

#include <stddef.h>
#include <sys/mman.h>

/* The size of a huge page on x86-64, and on aarch64 with small pages of 4 KiB. */
#define HUGE_PAGE ((size_t)2 << 20)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* since Linux 6.1 */
#endif
