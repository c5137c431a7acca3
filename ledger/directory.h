/* SPDX-License-Identifier: MIT
 *
 * The default directory of ledgers: a directory of the user, mode 0700, not a link. The library
 * and the command both use this function, so the command finds the library's files. No
 * allocation, no stdio.
 */
#ifndef GPULEAK_LEDGER_PLACE_H
#define GPULEAK_LEDGER_PLACE_H

#include <stddef.h>

#define PLACE_CANDIDATES 3
/* Candidate number I (0 ..), best first, e.g. /dev/shm/gpuleak-1000, into RET:
 * $XDG_RUNTIME_DIR/gpuleak, /dev/shm/gpuleak-UID, /tmp/gpuleak-UID. VARIABLE is getenv or
 * the like. 0, or -ENOENT where this candidate does not exist here. */
int place_candidate(int i, const char *(*variable)(const char *name), char *ret, size_t size);

/* Makes PATH a directory that is ours: mode 0700, owned by this user, no link. 0 or -errno. */
int place_make(const char *path);
/* The same check without making it. */
int place_check(const char *path);

/* Writes the base name of a ledger in that directory: PID-STARTTICKS.gpuleak */
int place_name(int pid, unsigned long long start_ticks, char *ret, size_t size);

#endif
