/* SPDX-License-Identifier: MIT
 *
 * A terminal that is drawn on again and again: takes it over, puts frames on it that fit,
 * and gives it back as it was, whatever ends the program.
 */
#ifndef GPULEAK_TOOLS_TERMINAL_H
#define GPULEAK_TOOLS_TERMINAL_H

#include <stddef.h>

struct terminal_size {
	size_t rows, columns;
};

/* Returns true if standard output is a terminal. */
int terminal_is(void);

/* Gets the terminal's size; 24 x 80 if it is unknown. */
struct terminal_size terminal_size(void);

void terminal_take(void);
/* May be called from a signal handler, and when nothing was taken. */
void terminal_give_back(void);

/* Shows TEXT, a text of whole lines, in place of what is shown: as many lines and of each as
 * many characters as fit. */
void terminal_draw(const char *text);

#endif
