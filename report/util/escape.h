/* SPDX-License-Identifier: MIT
 *
 * Makes bytes that came from elsewhere fit to be shown: what is valid UTF-8 and no control
 * character passes, all else is spelled out or replaced.
 */
#ifndef GPULEAK_REPORT_ESCAPE_H
#define GPULEAK_REPORT_ESCAPE_H

#include <stddef.h>
#include <stdio.h>

/* How many bytes the UTF-8 character at TEXT has, 0 if there is no valid one (overlong,
 * surrogate, above U+10FFFF, cut). */
size_t utf8_length(const char *text);

/* How many bytes the first COUNT characters of TEXT have, or those before the first invalid
 * byte. */
size_t utf8_prefix(const char *text, size_t count);

/* Writes TEXT in one line for a terminal, a browser or a log: what utf8_shown_within() refuses
 * as \xNN. All formats for people write foreign text through it. */
void print_escaped(FILE *out, const char *text);

/* As fprintf(), in one write and one line: what may not be shown of the arguments is spelled out.
 * A newline at the end of FORMAT ends the line. For messages of commands, which name what the
 * caller or a ledger gave them. */
void eprintf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A copy of TEXT, to be freed, with U+FFFD for every invalid byte; NULL without memory. */
char *utf8_repair(const char *text);

#endif
