/* SPDX-License-Identifier: MIT
 *
 * Small text files that users write, one statement a line: reads them within a limit, goes
 * from line to line, and says where something is wrong. Knows no statement; prints nothing.
 */
#ifndef GPULEAK_REPORT_LINES_H
#define GPULEAK_REPORT_LINES_H

#include <stddef.h>

#define LINES_BYTES_MAX ((size_t)8 << 20) /* of any file that a person writes */

/* Where an error is, and where its text goes. */
struct lines {
	const char *what; /* "suppression": the file is "a suppression file" */
	const char *name; /* what errors call the file */
	size_t bytes_max; /* so that a wrong file (a core dump, /dev/zero) ends in one line */
	unsigned int line; /* 0: none yet */
	char *error;
	size_t error_size;
};

/* Writes "NAME:LINE: ..." as the error; returns R. */
int lines_fail(const struct lines *lines, int r, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The start of a bad line, fit to be printed; returns RET. */
#define LINES_QUOTE 33
const char *lines_quote(const char *text, size_t length, char ret[LINES_QUOTE]);

/* Takes the blanks off both ends. */
void lines_trim(const char **text, size_t *length);

/* Hands each line of TEXT to EACH, without the blanks around it; empty lines and those that
 * begin with # are left out. 0, or the first -errno, with an error. */
int lines_each(struct lines *lines, const char *text, size_t length,
	       int (*each)(void *data, const struct lines *lines, const char *text,
			   size_t length),
	       void *data);

/* All of the file LINES->name, in *RET_TEXT to be freed, at most one byte more than allowed.
 * 0, or -errno with an error. */
int lines_read(const struct lines *lines, char **ret_text, size_t *ret_length);

/* Both in one: each line of the file LINES->name. 0, or -errno with an error. */
int lines_load(struct lines *lines,
	       int (*each)(void *data, const struct lines *lines, const char *text,
			   size_t length),
	       void *data);

#endif
