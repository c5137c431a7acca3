/* SPDX-License-Identifier: MIT
 *
 * The default directory for ledgers: owned by the user, mode 0700, not a symbolic link. The
 * library and the command both use these functions, so the command finds the library's files.
 * Any thread may call them. No allocation, no stdio.
 */
#pragma once

#include <stddef.h>

#define PLACE_CANDIDATES 3
/* Writes candidate I (from 0, best first) to RET: $XDG_RUNTIME_DIR/gpuleak, /dev/shm/gpuleak-UID,
 * /tmp/gpuleak-UID. VARIABLE is a function like getenv. Returns 0, -ENOENT if the candidate does
 * not exist on this system, or -ENAMETOOLONG. */
int place_candidate(int i, const char *(*variable)(const char *name), char *ret, size_t size);

/* Creates the directory PATH with mode 0700 if it does not exist, then checks it as place_check()
 * does. Returns 0 or -errno. */
int place_make(const char *path);
/* Checks that PATH is a directory with mode 0700 that this user owns, and not a symbolic link.
 * Returns 0 or -errno. */
int place_check(const char *path);

/* Writes the base name of a ledger to RET: PID-STARTTICKS.gpuleak. Returns 0 or -ENAMETOOLONG. */
int place_name(int pid, unsigned long long start_ticks, char *ret, size_t size);
