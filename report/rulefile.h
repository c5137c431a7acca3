/* SPDX-License-Identifier: MIT
 *
 * Files of rules that users write: read whole with a limit, taken apart into lines, errors
 * with file and line. What a line means is the caller's; prints nothing.
 */
#ifndef GPULEAK_REPORT_RULEFILE_H
#define GPULEAK_REPORT_RULEFILE_H

#include <stddef.h>

/* A wrong file (a core dump, /dev/zero) ends in one line of text. */
#define RULEFILE_BYTES_MAX (8u << 20)

struct rulefile {
	const char *name; /* what errors call it: its path */
	const char *what; /* "suppression": what sort of file it is */
	unsigned int line; /* 0: the file as a whole */
	char *error;
	size_t error_size;
};

/* Returns R after "NAME:LINE: ..." was put in the error. */
int rulefile_fail(const struct rulefile *file, int r, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Gives every line of TEXT that is neither empty nor a comment (#) to EACH, without the blanks
 * around it and not ended by NUL; stops at the first that answers below 0. 0 or that. */
typedef int rulefile_line(void *data, const struct rulefile *file, const char *text,
			  size_t length);
int rulefile_lines(struct rulefile *file, const char *text, size_t length, rulefile_line *each,
		   void *data);

/* The same for the file at FILE->name. */
int rulefile_load(struct rulefile *file, rulefile_line *each, void *data);

/* The start of a bad text, fit to be printed. */
const char *rulefile_quote(const char *text, size_t length, char ret[33]);

/* Moves *TEXT and *LENGTH so that no blanks are around it. */
void rulefile_trim(const char **text, size_t *length);

#endif
