/* SPDX-License-Identifier: MIT
 *
 * The private directory of one `gpuleak run`, and the removal of files that killed processes and
 * runs left.
 */
#ifndef GPULEAK_TOOLS_RUNDIR_H
#define GPULEAK_TOOLS_RUNDIR_H

#include <stddef.h>

/* Creates a directory with room for ledgers, mode 0700, in the first suitable place; writes its
 * path to RET. 0, or -errno with a line in ERROR. */
int rundir_create(char *ret, size_t size, char *error, size_t error_size);

/* Finds the directory of the `gpuleak run` that is process PID. 0, or -ENOENT if PID is no such
 * process, or has no directory yet. */
int rundir_of(int pid, char *ret, size_t size);

/* Removes the ledgers in PATH and PATH itself. */
void rundir_remove(const char *path);

/* Removes ledgers and run directories that were not touched for a week and whose processes ended.
 * Only removes files with gpuleak's names, in directories of the user. */
void rundir_clear_stale(void);

#endif
