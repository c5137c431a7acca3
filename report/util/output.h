/* SPDX-License-Identifier: MIT
 *
 * Writes a finished report to the destination that the user chose. Opens the files. Must not
 * depend on the contents. On error, functions return -errno and write one line to ERROR, without
 * the prefix "gpuleak:".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Time for which a descriptor with O_NONBLOCK may take nothing. Then writing fails. -1: no limit */
extern int output_stall_ms;

/* Called before each write to FD, unless NULL. If the caller of this module uses a timer, its
 * signals interrupt a write that waits, and OUTPUT_WAITS is called again. */
extern void (*output_waits)(int fd);

/* Writes LENGTH bytes of TEXT to WHERE: `stderr`, `none` (does nothing), or a path, in which % has
 * no special meaning. Creates a regular file under a temporary name and renames it, so that no
 * reader sees a partial file. Writes directly to a pipe, a terminal or /dev/stdout. A closed pipe
 * is an error, not a signal. Returns 0 or -errno. */
int output_write(const char *where, const char *text, size_t length, char *error,
		 size_t error_size);

/* Checks that output_write() could write to WHERE now. Changes nothing. WHAT describes the file in
 * error messages. Returns 0 or -errno. */
int output_check(const char *where, const char *what, char *error, size_t error_size);

/* Creates the folders of the file PATH that do not exist. Returns 0 or -errno. */
int output_make_folders(const char *path);

/* Writes a file that is not a report, like output_write(). PATH is always a path, so `stderr` and
 * `none` have no special meaning. WHAT describes the file in error messages. */
int output_write_file(const char *path, const char *what, const char *text, size_t length,
		      char *error, size_t error_size);

/* Writes to an open descriptor, like output_write(). NAME describes it in error messages. */
int output_write_fd(int fd, const char *name, const char *text, size_t length, char *error,
		    size_t error_size);

/* Returns true if output to WHERE (as in output_write(); NULL: stdout) goes to a terminal. */
bool output_is_terminal(const char *where);

/* Returns true if text that is written to WHERE (as in output_write(); NULL: stdout) may have
 * colours. If ALWAYS is not set, that is a terminal, unless NO_COLOR or TERM forbid colours. If
 * ALWAYS is set, it is a terminal, or an open descriptor (stdout, stderr, /dev/stdout ...) of any
 * kind except a regular file. */
bool output_takes_colors(const char *where, bool always);

/* Appends to the file at PATH and creates it if it does not exist. Fails if the file would become
 * larger than BYTES_MAX. Returns 0 or -errno. */
int output_append(const char *path, size_t bytes_max, const char *text, size_t length, char *error,
		  size_t error_size);
