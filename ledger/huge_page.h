/* SPDX-License-Identifier: MIT
 *
 * What the code that maps memory knows of huge pages. One needs a single entry of the TLB.
 * gpuleak's memory is read between the application's own accesses, when most entries for small
 * pages have left the TLB.
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
