/* SPDX-License-Identifier: MIT
 *
 * The private directory of one `gpuleak run`, and the clearing away of what processes
 * and runs that were killed have left behind.
 */
#ifndef GPULEAK_TOOLS_RUNDIR_H
#define GPULEAK_TOOLS_RUNDIR_H

#include <stddef.h>

/* Makes a directory with room for ledgers, mode 0700, below the first place that has any;
 * its path goes to RET. 0, or -errno with one line in ERROR. */
int rundir_create(char *ret, size_t size, char *error, size_t error_size);

/* Finds the directory of the `gpuleak run` that is process PID. 0, or -ENOENT if PID is no such
 * process, or has no directory yet. */
int rundir_of(int pid, char *ret, size_t size);

/* Removes the ledgers in PATH and PATH itself. */
void rundir_remove(const char *path);

/* Removes ledgers and run directories that nobody has touched for a week and whose
 * processes are gone. Only files of our naming, only in directories of the user's own. */
void rundir_clear_stale(void);

#endif
