/* SPDX-License-Identifier: MIT
 *
 * Makes text from other programs safe to print: copies valid UTF-8 without control characters,
 * and escapes or replaces all other bytes.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Returns the length in bytes of the UTF-8 character at TEXT, 0 if it is invalid (overlong,
 * surrogate, above U+10FFFF, incomplete). */
size_t utf8_length(const char *text);

/* Returns the length in bytes of the first COUNT characters of TEXT, or of those before the first
 * invalid byte. */
size_t utf8_prefix(const char *text, size_t count);

/* Writes TEXT on one line. Writes a byte that utf8_shown_within() does not accept, for example a
 * control character, as \xNN. All formats for people print names from the traced program with this
 * function. */
void print_escaped(FILE *out, const char *text);

/* Writes one line like fprintf(), with a single write. Escapes characters of the arguments that
 * must not be printed. The line ends where FORMAT ends with a newline. Commands use it for messages
 * that contain names from the user or a ledger. */
void eprintf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the line "gpuleak: FORMAT" on stderr, as eprintf() does. FORMAT is a string constant. */
#define print_error(format, ...) eprintf(stderr, "gpuleak: " format "\n", ##__VA_ARGS__)

/* Returns a copy of TEXT with each invalid byte replaced by U+FFFD. The caller frees the copy. */
char *utf8_repair(const char *text);
