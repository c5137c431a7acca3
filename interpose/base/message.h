/* SPDX-License-Identifier: MIT
 *
 * Text that the library prints inside the application's process: built in a buffer, written by one
 * write(2) to standard error. No stdio, no locale, no allocation. Safe in a signal handler.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Writes all parts, up to a NULL, as one line with one write. A newline after the last part is
 * optional. */
void say(const char *part, ...) __attribute__((sentinel));

struct text {
	char *at;
	size_t left; /* room in bytes; text that needs more is cut */
};

/* The first two functions escape, as in \x0A: control characters, newlines, characters that change
 * the direction of text, the byte order mark, and bytes that are not UTF-8. */
void text_add(struct text *text, const char *part);
void text_add_bytes(struct text *text, const char *bytes, size_t length);
void text_add_number(struct text *text, uint64_t number);
void text_add_hex(struct text *text, uint64_t number);
/* Writes NUMBER in decimal and a NUL to RET. Returns RET. */
#define TEXT_NUMBER 24
const char *text_number(uint64_t number, char ret[TEXT_NUMBER]);
/* Adds a newline, even if LEFT is 0. So the buffer must be one byte larger than LEFT was at
 * first. */
void text_end_line(struct text *text);

/* Writes all bytes, through short writes and interruptions. Raises no signal. Returns false if it
 * could not write all. */
bool write_all(int fd, const char *bytes, size_t length);

/* Does the same, but does not wait until the application's pipe or terminal is read: over the
 * life of the process it waits 2 seconds at most. Then it returns false. */
bool write_without_hanging(int fd, const char *bytes, size_t length);
