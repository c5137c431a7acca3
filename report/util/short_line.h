/* SPDX-License-Identifier: MIT
 *
 * Shortens a line of text for a terminal. Must not be used for keys or machine-readable formats.
 */
#pragma once

#include <stddef.h>

/* Shortens paths in parentheses from the left, one after the other, until LINE has at most COLUMNS
 * bytes: "(/home/a/src/train.py:14)" becomes "(.../src/train.py:14)". A later path loses the same
 * folder, too. */
void short_paths(char *line, size_t columns);
/* Shortens LINE to at most COLUMNS bytes (at least 8), if it is longer: first its paths, then the
 * last part of the sentence becomes "...", for example "called from ...". If that part is longer
 * than a quarter of the line, it may be what matters: then LINE ends before it, and the function
 * returns it. Else returns NULL. */
char *short_line(char *line, size_t columns);
