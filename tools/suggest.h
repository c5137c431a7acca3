/* SPDX-License-Identifier: MIT
 *
 * Finds the known name that a mistyped word probably means. Does not replace the word: the user
 * repeats the command.
 */
#ifndef GPULEAK_TOOLS_SUGGEST_H
#define GPULEAK_TOOLS_SUGGEST_H

#include <stddef.h>

struct suggestion { /* starts as { .word = ..., .length = ... } */
	const char *word; /* as typed, LENGTH bytes */
	size_t length;
	const char *closest; /* of the names considered so far; NULL: none is close */
	size_t edits;        /* between the word and `closest` */
};

/* Records NAME if it needs fewer edits than the closest word so far: inserted, omitted, replaced or
 * swapped letters. At most a third of the letters may differ. */
void suggest_consider(struct suggestion *suggestion, const char *name);

/* Prints " (did you mean NAME?)" on stderr, with DASHES before the name, if there is one. */
void suggest_print(const struct suggestion *suggestion, const char *dashes);

#endif
