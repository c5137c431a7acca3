/* SPDX-License-Identifier: MIT
 *
 * Finds the known name that the user probably meant by a mistyped word. Does not replace the
 * word; the user repeats the command.
 */
#pragma once

#include <stddef.h>

struct suggestion { /* starts as { .word = ..., .length = ... } */
	const char *word; /* LENGTH bytes, as typed */
	size_t length;
	const char *closest; /* closest name until now; NULL: no name is close */
	size_t edits;        /* number of edits between `word` and `closest` */
};

/* Stores NAME as the closest name if it needs fewer edits than the closest name until now. An edit
 * inserts, removes, replaces or swaps letters. At most a third of the letters may differ. */
void suggest_consider(struct suggestion *suggestion, const char *name);

/* Prints " (did you mean NAME?)" on stderr if a close name was found, with DASHES before the name.
 * */
void suggest_print(const struct suggestion *suggestion, const char *dashes);
