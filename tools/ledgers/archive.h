/* SPDX-License-Identifier: MIT
 *
 * Moves a ledger to the path that the user chose.
 */
#ifndef GPULEAK_TOOLS_KEEP_H
#define GPULEAK_TOOLS_KEEP_H

#include <stddef.h>

/* Moves the ledger FROM to WANTED or, if that exists, to WANTED.1, WANTED.2 ... Creates missing
 * folders, and never replaces a file. If COPY is set, copies it instead. Writes the new path to RET. Returns 0 or -errno. On
 * error FROM is unchanged and no new file remains. */
int keep_ledger(const char *from, const char *wanted, int copy, char *ret, size_t size);

#endif
