/* SPDX-License-Identifier: MIT
 *
 * Writes text as XML 1.0: escapes markup, and replaces characters that XML cannot contain.
 */
#pragma once

#include <stdio.h>

/* Writes TEXT as character data, which is also valid in an attribute. Keeps newlines. Writes other
 * control characters and invalid UTF-8 as \xNN, and U+FFFE and U+FFFF as U+FFFD. */
void xml_text(FILE *out, const char *text);

/* Writes a space and NAME="TEXT". */
void xml_attribute(FILE *out, const char *name, const char *text);
