/* SPDX-License-Identifier: MIT
 *
 * Text from inside a foreign process: built in a buffer, written by one write(2) to
 * standard error. No stdio, no locale, no allocation.
 */
#ifndef GPULEAK_SAY_H
#define GPULEAK_SAY_H

#include <stddef.h>
#include <stdint.h>

/* All parts, up to a NULL, as one write. */
void say(const char *part, ...) __attribute__((sentinel));

struct text {
	char *at;
	size_t left; /* what does not fit is cut */
};

void text_add(struct text *text, const char *part);
void text_add_bytes(struct text *text, const char *bytes, size_t length);
void text_add_number(struct text *text, uint64_t number);
void text_add_hex(struct text *text, uint64_t number);

/* The whole of it, through short writes and interruptions; errors are ignored. */
void write_all(int fd, const char *bytes, size_t length);

#endif
