/* SPDX-License-Identifier: MIT
 *
 * Constants for huge pages. gpuleak reads its memory rarely compared with the application, so the
 * TLB has evicted most entries of gpuleak's pages by then. A huge page needs one entry in place of
 * 512.
 */
#ifndef GPULEAK_LEDGER_HUGE_PAGE_H
#define GPULEAK_LEDGER_HUGE_PAGE_H

#include <stddef.h>
#include <sys/mman.h>

/* The size of a huge page on x86-64, and on aarch64 with small pages of 4 KiB. */
#define HUGE_PAGE ((size_t)2 << 20)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* since Linux 6.1 */
#endif

#endif
