/* SPDX-License-Identifier: MIT
 *
 * A FILE that collects its text in memory. Some formats use it to escape the text afterwards.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Call text_buffer_begin(), write to `out`, then call text_buffer_end(). */
struct text_buffer {
	FILE *out;
	char *text;
	size_t length;
};

void text_buffer_begin(struct text_buffer *words);

/* Closes `out`. Then `text` is complete, and text_buffer_finish() frees it. */
void text_buffer_end(struct text_buffer *words);

void text_buffer_finish(struct text_buffer *words);

/* Returns the text that the statements print to the FILE TO. The caller frees it. */
#define PRINTED(to, ...) ({ \
	struct text_buffer printed_; \
	FILE *to; \
	text_buffer_begin(&printed_); \
	to = printed_.out; \
	__VA_ARGS__; \
	text_buffer_end(&printed_); \
	printed_.text; })

/* Before the declaration of a variable with a value: FUNCTION gets its address where its block
 * ends. */
#define AT_END(function) __attribute__((unused, cleanup(function)))

/* Before the declaration of a pointer: what it points to is freed where its block ends. */
#define FREE_AT_END AT_END(text_free)
void text_free(void *pointer);
