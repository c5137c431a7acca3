/* SPDX-License-Identifier: MIT
 *
 * Text from inside a foreign process: built in a buffer, written by one write(2) to
 * standard error. No stdio, no locale, no allocation.
 */
#ifndef GPULEAK_SAY_H
#define GPULEAK_SAY_H

#include <stddef.h>
#include <stdint.h>

/* All parts, up to a NULL, as one line and one write; a newline behind the last part is
 * optional. */
void say(const char *part, ...) __attribute__((sentinel));

struct text {
	char *at;
	size_t left; /* what does not fit is cut */
};

/* Control characters (newlines, too), characters that change the direction of text, and bytes
 * that are not UTF-8 are spelled out, as \x0A. */
void text_add(struct text *text, const char *part);
void text_add_bytes(struct text *text, const char *bytes, size_t length);
void text_add_number(struct text *text, uint64_t number);
void text_add_hex(struct text *text, uint64_t number);
/* Wants room for one byte behind what may be LEFT. */
void text_end_line(struct text *text);

/* The whole of it, through short writes and interruptions; errors are ignored, and raise no
 * signal. */
void write_all(int fd, const char *bytes, size_t length);

#endif
