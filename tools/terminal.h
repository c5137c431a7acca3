/* SPDX-License-Identifier: MIT
 *
 * Draws a screen repeatedly on a terminal. Saves the terminal's state at first and restores it
 * when the program ends, also by a signal.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct terminal_size {
	size_t rows, columns;
};

/* Returns true if standard output is a terminal. */
bool terminal_is(void);

/* Returns the terminal's size, 24 x 80 if it is unknown. */
struct terminal_size terminal_size(void);

/* Saves the state of the terminal and switches to the alternate screen. */
void terminal_take(void);
/* Restores the terminal. Signal handlers may call it. Does nothing without terminal_take(). */
void terminal_give_back(void);

/* Replaces the screen by TEXT, which has complete lines, and its last row by LAST ("": none). Cuts
 * lines and characters that do not fit. WRITE_LINE writes a line with colours; NULL: no colours. */
void terminal_draw(const char *text, const char *last,
		   void (*write_line)(const char *line, FILE *out));
