/* SPDX-License-Identifier: MIT
 *
 * Moves a ledger to the place that the user chose.
 */
#ifndef GPULEAK_TOOLS_KEEP_H
#define GPULEAK_TOOLS_KEEP_H

#include <stddef.h>

/* Moves the ledger FROM to WANTED or, if that exists, to WANTED.1, WANTED.2 ...; never replaces a
 * file. With COPY set, FROM is kept. Writes the path to RET. 0 or -errno; on error FROM is
 * unchanged and nothing is left at WANTED. */
int keep_ledger(const char *from, const char *wanted, int copy, char *ret, size_t size);

#endif
