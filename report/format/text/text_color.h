/* SPDX-License-Identifier: MIT
 *
 * Colours a text report for a terminal. Knows the layout of its lines. Adds only ANSI sequences
 * and changes nothing else. Does not decide whether colours are wanted.
 */
#ifndef GPULEAK_REPORT_TEXT_COLOR_H
#define GPULEAK_REPORT_TEXT_COLOR_H

#include <stddef.h>
#include <stdio.h>

/* Writes LENGTH bytes of TEXT, which has complete lines, to OUT with colours. A line that this
 * function does not know stays as it is. */
void text_color(const char *text, size_t length, FILE *out);

#endif
