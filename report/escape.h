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

/* A copy of TEXT, to be freed, with U+FFFD for every invalid byte; NULL without memory. */
char *utf8_repair(const char *text);

#endif
