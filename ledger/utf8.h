/* SPDX-License-Identifier: MIT
 *
 * Decides which bytes of a foreign name can be printed unchanged. The library and the command
 * use it for all their text. Any thread may call it. No printing, no allocation.
 */
#pragma once

#include <stddef.h>

/* Returns the length in bytes of the UTF-8 character that begins the LEFT bytes at TEXT. Returns 0
 * if the character is a NUL or invalid (overlong, surrogate, above U+10FFFF, incomplete). */
size_t utf8_length_within(const char *text, size_t left);

/* Returns the code point of the valid character of LENGTH (1 to 4) bytes at TEXT. */
unsigned int utf8_code_point(const char *text, size_t length);

/* Returns the length of the same character, or 0 if it must be escaped: it is invalid, controls a
 * terminal (C0, DEL, C1), ends a line, or is invisible and changes the order of text. */
size_t utf8_shown_within(const char *text, size_t left);
