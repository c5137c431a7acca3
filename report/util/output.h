/* SPDX-License-Identifier: MIT
 *
 * Puts a finished report where the user wants it. Owns files and descriptors, knows
 * nothing of what is in the text.
 */
#ifndef GPULEAK_REPORT_OUTPUT_H
#define GPULEAK_REPORT_OUTPUT_H

#include <stddef.h>

/* Writes LENGTH bytes of TEXT to WHERE: `stderr`, `none` (nothing is done), or a path
 * without % sequences. A file appears whole under its name or not at all: it is written
 * beside it and renamed; a pipe, a terminal or /dev/stdout is written to as it is. A
 * reader that went away costs an error, never a signal. 0, or -errno with one line in
 * ERROR (no "gpuleak:" before it). */
int output_write(const char *where, const char *text, size_t length, char *error,
		 size_t error_size);

/* Checks that output_write() could write to WHERE now. What is there stays as it is, and
 * nothing is left behind. 0, or -errno with one line in ERROR. */
int output_check(const char *where, char *error, size_t error_size);

/* The same for a file that is no report; WHAT is what errors call it. No words but a path. */
int output_write_file(const char *path, const char *what, const char *text, size_t length,
		      char *error, size_t error_size);

/* The same for an open descriptor; NAME is what errors call it. */
int output_write_fd(int fd, const char *name, const char *text, size_t length, char *error,
		    size_t error_size);

/* Whether what is written to WHERE (as above; NULL: stdout) is shown on a terminal. */
int output_is_terminal(const char *where);

/* Appends to the file at PATH, made if it is not there, unless it would then have more than
 * BYTES_MAX. As above. */
int output_append(const char *path, size_t bytes_max, const char *text, size_t length, char *error,
		  size_t error_size);

#endif
