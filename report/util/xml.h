/* SPDX-License-Identifier: MIT
 *
 * Writes text as XML 1.0: escapes markup, and spells out characters that XML cannot contain.
 */
#ifndef GPULEAK_REPORT_XML_H
#define GPULEAK_REPORT_XML_H

#include <stdio.h>

/* Writes TEXT as character data that may stand in an attribute, too. Newlines stay; other
 * control characters and invalid UTF-8 become \xNN, U+FFFE and U+FFFF become U+FFFD. */
void xml_text(FILE *out, const char *text);

/* NAME="TEXT" with a space before it. */
void xml_attribute(FILE *out, const char *name, const char *text);

#endif
