/* SPDX-License-Identifier: MIT
 *
 * Words that are written to a FILE, caught as a string, for formats that escape them once more.
 */
#ifndef GPULEAK_REPORT_WORDS_H
#define GPULEAK_REPORT_WORDS_H

#include <stddef.h>
#include <stdio.h>

/* Write to `out`, then words_end(). Starts as { 0 }. */
struct words {
	FILE *out;
	char *text;
	size_t length;
};

/* 0 or -ENOMEM. */
int words_begin(struct words *words);

/* Closes `out`: `text` is whole, to be freed with words_finish(). 0 or -ENOMEM. */
int words_end(struct words *words);

void words_finish(struct words *words);

#endif
