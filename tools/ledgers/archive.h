/* SPDX-License-Identifier: MIT
 *
 * Moves a ledger to the path that the user chose, and copies files.
 */
#pragma once

#include <stddef.h>

/* A link shows what a process writes into its ledger later. A copy does not. */
enum keep_how { KEEP_BY_MOVE, KEEP_BY_COPY, KEEP_BY_LINK };

/* Puts the ledger FROM at WANTED or, if that exists, at WANTED.1, WANTED.2 ... Creates missing
 * folders, and never replaces a file. Copies it if the file system allows nothing else. Writes the
 * new path to RET. Returns 0 or -errno. On error FROM is unchanged and no new file remains. */
int keep_ledger(const char *from, const char *wanted, enum keep_how how, char *ret, size_t size);

/* Copies FROM to the new file TO, which only the user may read. Returns 0 or -errno. */
int copy_to_new(const char *from, const char *to);
