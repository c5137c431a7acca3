/* SPDX-License-Identifier: MIT
 *
 * A FILE that collects its text in memory, for formats that escape the text once more.
 */
#ifndef GPULEAK_REPORT_TEXT_BUFFER_H
#define GPULEAK_REPORT_TEXT_BUFFER_H

#include <stddef.h>
#include <stdio.h>

/* Write to `out`, then text_buffer_end(). Starts as { 0 }. */
struct text_buffer {
	FILE *out;
	char *text;
	size_t length;
};

/* 0 or -ENOMEM. */
int text_buffer_begin(struct text_buffer *words);

/* Closes `out`: `text` is whole, to be freed with text_buffer_finish(). 0 or -ENOMEM. */
int text_buffer_end(struct text_buffer *words);

void text_buffer_finish(struct text_buffer *words);

#endif
