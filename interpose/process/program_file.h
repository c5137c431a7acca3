/* SPDX-License-Identifier: MIT
 *
 * The file of a program that this process is about to start. Only reads files. Safe in a vfork
 * child and in signal handlers; keeps errno.
 */
#ifndef GPULEAK_PROGRAM_FILE_H
#define GPULEAK_PROGRAM_FILE_H

#include <stdbool.h>

/* Where the file is: at its path, in PATH as execvp searches it, or not known by name. */
enum program_search { PROGRAM_AT_PATH, PROGRAM_IN_PATH, PROGRAM_UNKNOWN };

/* Returns true if FILE, which may be NULL, can be executed, or if it is not known. */
bool program_file_runs(const char *file, enum program_search search);

/* Returns true if the program FILE does not start with gpuleak preloaded, or reports an error: it
 * is for another C library (musl) or another processor. */
bool program_file_refuses(const char *file, enum program_search search);

#endif
