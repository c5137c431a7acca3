/* SPDX-License-Identifier: MIT
 *
 * Which bytes of a foreign name may be shown as they are: the one answer for all text that
 * either half writes. Must not print and must not allocate.
 */
#ifndef GPULEAK_LEDGER_UTF8_H
#define GPULEAK_LEDGER_UTF8_H

#include <stddef.h>

/* Returns how many bytes the UTF-8 character has that begins the LEFT bytes at TEXT, 0 if there
 * is no valid one (overlong, surrogate, above U+10FFFF, cut) or a NUL. */
size_t utf8_length_within(const char *text, size_t left);

/* Returns the code point of the valid character of LENGTH bytes, 1 to 4, at TEXT. */
unsigned int utf8_code_point(const char *text, size_t length);

/* Returns the same if the character may be shown, 0 if its first byte must be spelled out: it
 * is invalid, controls a terminal (C0, DEL, C1), ends a line, or is invisible and changes the
 * order in which the text beside it is shown. */
size_t utf8_shown_within(const char *text, size_t left);

#endif
