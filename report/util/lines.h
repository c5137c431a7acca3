/* SPDX-License-Identifier: MIT
 *
 * The syntax of the text files that users write (rules, suppressions, budgets, policies,
 * baselines): one statement per line, comments, words, quotes and numbers. Errors have the
 * file's name and the line number. Limits the size of a file. Must not depend on any statement,
 * and must not print.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINES_BYTES_MAX ((size_t)8 << 20)

/* A file that is being read, and the buffer for the error message. */
struct lines {
	const char *what; /* "suppression" if the file is "a suppression file" */
	const char *name; /* name of the file in error messages */
	/* limit of the file's size: a larger file (a core dump, /dev/zero) is an error */
	size_t bytes_max;
	unsigned int line; /* number of the current line; 0: before the first line */
	char *error;
	size_t error_size;
};

/* The rest of one line, without blanks at both ends. Functions that read a part of it advance
 * AT. */
struct line {
	const struct lines *file;
	const char *at;
	size_t length;
};

/* A part of a line. */
struct line_part {
	const char *text; /* not NUL-terminated */
	size_t length;
};

/* Writes "NAME:LINE: ..." to the error buffer and returns R. */
int lines_fail(const struct lines *lines, int r, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
#define line_fail(line, ...) lines_fail((line)->file, -EINVAL, __VA_ARGS__)

/* Copies the start of WORD to RET, with a dot instead of each byte that is not printable ASCII.
 * Returns RET. QUOTED() is the same as text that is valid until the end of the block. */
#define LINES_QUOTE 33
const char *lines_quote(struct line_part word, char ret[LINES_QUOTE]);
#define QUOTED(word) lines_quote(word, (char[LINES_QUOTE]){ 0 })

/* Calls EACH for each line of TEXT, or of the file LINES->name if TEXT is NULL. Skips empty lines
 * and comments, which begin with #. Stops at the first error. Returns 0, or -errno with a message
 * in the error buffer. */
typedef int lines_each_fn(void *data, struct line *line);
int lines_each(struct lines *lines, const char *text, size_t length, lines_each_fn *each,
	       void *data);

/* Returns the rest of LINE. */
static inline struct line_part line_rest(const struct line *line)
{
	return (struct line_part){ line->at, line->length };
}

/* Advances LINE by LENGTH bytes and the blanks after them. */
void line_skip(struct line *line, size_t length);

/* Reads the bytes before the first byte of ENDS, and the blanks after them. */
struct line_part line_word(struct line *line, const char *ends);

/* Reads a word, or the text between two quotes, and the blanks after it. Returns 0, or -EINVAL with
 * a message in the error buffer. */
int line_text(struct line *line, struct line_part *ret);

/* Removes the last word from LINE and returns it. The word is empty if the line is empty. */
struct line_part line_last_word(struct line *line);

/* Reads "TYPE:" and returns its index in the COUNT TYPES, or -1 if LINE does not begin with one of
 * them. Does not skip blanks after the colon. */
int line_type(struct line *line, const char *const *types, size_t count);

/* Returns true if WORD equals TEXT. */
bool word_is(struct line_part word, const char *text);

/* Reads the number WORD, which may only have lower-case digits of BASE. Returns 0 or -EINVAL. */
int word_number(struct line_part word, unsigned int base, uint64_t *ret);
