/* SPDX-License-Identifier: MIT
 *
 * Moves a ledger to where the user wants to keep it.
 */
#ifndef GPULEAK_TOOLS_KEEP_H
#define GPULEAK_TOOLS_KEEP_H

#include <stddef.h>

/* Moves the ledger FROM to WANTED, or, if that is taken, to WANTED.1, WANTED.2 ...: nothing
 * is ever replaced. With COPY set FROM stays. The path it got goes to RET. 0 or -errno, and
 * then FROM is untouched and nothing is left at WANTED. */
int keep_ledger(const char *from, const char *wanted, int copy, char *ret, size_t size);

#endif
