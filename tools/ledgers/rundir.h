/* SPDX-License-Identifier: MIT
 *
 * Creates and finds the private directory of one `gpuleak run`, which contains the ledgers of
 * its processes. Removes files of earlier runs whose processes were killed.
 */
#pragma once

#include <limits.h>
#include <stddef.h>

/* Creates a directory for ledgers, mode 0700, and writes its path to RET. Uses the first suitable
 * directory whose file system has enough free space. Returns 0, or -errno with a line in ERROR. */
int rundir_create(char *ret, size_t size, char *error, size_t error_size);

#define RUNDIR_PATTERN_MAX (2 * PATH_MAX + 16)
/* Writes to RET the value of --ledger for files in DIRECTORY, DIRECTORY/%p.gpuleak: each % in
 * DIRECTORY is doubled. */
void rundir_pattern(const char *directory, char ret[RUNDIR_PATTERN_MAX]);

/* Writes to RET the directory of the `gpuleak run` whose pid is PID. Returns 0, or -ENOENT if PID
 * is not such a process or has not created its directory yet. */
int rundir_of(int pid, char *ret, size_t size);

/* Removes the directory PATH and its ledgers. */
void rundir_remove(const char *path);

/* Removes ledgers and run directories that did not change for a week and whose processes have
 * ended. Removes only files with names that gpuleak uses, in directories that the user owns. */
void rundir_clear_stale(void);
