/* SPDX-License-Identifier: MIT
 *
 * The grammar of the text files that users write (rules, suppressions, budgets, policies,
 * baselines): one statement per line, comments, words, quotes, numbers, and errors that name
 * file and line. Owns the limit of a file's size. Must not know any statement, and must not print.
 */
#ifndef GPULEAK_REPORT_LINES_H
#define GPULEAK_REPORT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINES_BYTES_MAX ((size_t)8 << 20)

/* A file that is being read, and the buffer for its error message. */
struct lines {
	const char *what; /* "suppression": the file is "a suppression file" */
	const char *name; /* the file's name in errors */
	size_t bytes_max; /* a larger file (a core dump, /dev/zero) is refused */
	unsigned int line; /* 0: no line was read yet */
	char *error;
	size_t error_size;
};

/* One line, without the blanks around it. Functions that read a part of it move AT. */
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

/* Writes "NAME:LINE: ..." as the error; returns R. */
int lines_fail(const struct lines *lines, int r, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Copies the start of WORD to RET, with a dot for each byte that is not printable ASCII.
 * Returns RET. */
#define LINES_QUOTE 33
const char *lines_quote(struct line_part word, char ret[LINES_QUOTE]);

/* Calls EACH for each line of TEXT, or of the file LINES->name if TEXT is NULL. Leaves out empty
 * lines and comments, which begin with #. Returns 0, or the first -errno with an error. */
typedef int lines_each_fn(void *data, struct line *line);
int lines_each(struct lines *lines, const char *text, size_t length, lines_each_fn *each,
	       void *data);

/* Returns ITEMS, which may have moved, with room for one more than COUNT items of SIZE bytes. All
 * items must have been added this way. Returns NULL with an error, and -E2BIG or -ENOMEM in *RET,
 * if COUNT is MAX already or if memory runs out. */
void *lines_grow(const struct lines *lines, void *items, size_t count, size_t size, size_t max,
		 int *ret);

/* Moves AT behind LENGTH bytes and the blanks after them. */
void line_skip(struct line *line, size_t length);

/* Reads the bytes up to the first one of ENDS, and the blanks behind them. */
struct line_part line_word(struct line *line, const char *ends);

/* Reads a word, or the text between two quotes, and the blanks behind it. 0, or -EINVAL with an
 * error. */
int line_text(struct line *line, struct line_part *ret);

/* Cuts the last word off the line. The word is empty if the line is. */
struct line_part line_last_word(struct line *line);

/* Reads "TYPE:" and returns its index in the COUNT TYPES, or -1 if the line begins with none of
 * them. Does not skip blanks behind the colon. */
int line_type(struct line *line, const char *const *types, size_t count);

/* Returns true if WORD is TEXT. */
bool word_is(struct line_part word, const char *text);

/* Reads WORD, which consists of lower-case digits of BASE only. 0 or -EINVAL. */
int word_number(struct line_part word, unsigned int base, uint64_t *ret);

#endif
