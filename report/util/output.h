/* SPDX-License-Identifier: MIT
 *
 * Writes a finished report to the destination that the user chose. Owns files and descriptors.
 * Must not know the contents.
 */
#ifndef GPULEAK_REPORT_OUTPUT_H
#define GPULEAK_REPORT_OUTPUT_H

#include <stddef.h>

/* Writes LENGTH bytes of TEXT to WHERE: `stderr`, `none` (does nothing), or a path without %
 * sequences. Creates a regular file under a temporary name and renames it, so that it appears
 * complete or not at all. Writes directly to a pipe, a terminal or /dev/stdout. A closed pipe is an
 * error, not a signal. 0, or -errno with one line in ERROR, without the prefix "gpuleak:". */
int output_write(const char *where, const char *text, size_t length, char *error,
		 size_t error_size);

/* Checks that output_write() could write to WHERE now. Changes nothing. 0, or -errno with one line
 * in ERROR. */
int output_check(const char *where, char *error, size_t error_size);

/* The same for a file that is no report; WHAT is what errors call it. No words but a path. */
int output_write_file(const char *path, const char *what, const char *text, size_t length,
		      char *error, size_t error_size);

/* The same for an open descriptor; NAME is what errors call it. */
int output_write_fd(int fd, const char *name, const char *text, size_t length, char *error,
		    size_t error_size);

/* Returns true if output to WHERE (as above; NULL: stdout) appears on a terminal. */
int output_is_terminal(const char *where);

/* Appends to the file at PATH, made if it is not there, unless it would then have more than
 * BYTES_MAX. As above. */
int output_append(const char *path, size_t bytes_max, const char *text, size_t length, char *error,
		  size_t error_size);

#endif
