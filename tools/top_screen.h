/* SPDX-License-Identifier: MIT
 *
 * What `gpuleak top` shows on a terminal besides the frame: the line of keys, the page of help, and
 * colours. Has the table of sort keys. Reads nothing and keeps no state.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "report/top/live.h"

struct top_order {
	char key;
	const char *word;   /* value of --sort, and text in the line of keys */
	const char *column; /* text in the help: what the call sites are sorted by */
	enum live_order order;
};
#define TOP_ORDERS 4
extern const struct top_order top_orders[TOP_ORDERS];

/* Prints the line of keys for a screen of COLUMNS; a star marks the key of ORDER. */
void top_print_keys(FILE *out, enum live_order order, size_t columns);

/* Prints what the keys do and what the columns mean, in lines of at most 40 columns. */
void top_print_help(FILE *out);

/* Writes LINE, of text_live(), top_print_keys() or top_print_help(), with colours. */
void top_write_line(const char *line, FILE *out);
