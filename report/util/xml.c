/* SPDX-License-Identifier: MIT
 *
 * Implements production 2 (Char) of XML 1.0, and escapes the five characters of markup.
 */
#include "report/util/xml.h"

#include <string.h>

#include "report/util/escape.h"

static const char *entity(char c)
{
	static const char *const entities[] = { ['&'] = "&amp;", ['<'] = "&lt;", ['>'] = "&gt;",
						['"'] = "&quot;", ['\''] = "&apos;" };
	size_t at = (unsigned char)c;

	return at < sizeof(entities) / sizeof(entities[0]) ? entities[at] : NULL;
}

/* Writes the character of LENGTH bytes at TEXT, or one invalid byte if LENGTH is 0. */
static void character(FILE *out, const char *text, size_t length)
{
	char alone[5] = { 0 };

	memcpy(alone, text, length ? length : 1);
	if (length == 1 && entity(alone[0]))
		fputs(entity(alone[0]), out);
	else if (strcmp(alone, "\xef\xbf\xbe") == 0 || strcmp(alone, "\xef\xbf\xbf") == 0)
		fputs("\xef\xbf\xbd", out);
	else
		print_escaped(out, alone);
}

static void write_text(FILE *out, const char *text, const char *newline)
{
	while (*text) {
		size_t length = utf8_length(text);

		if (*text == '\n')
			fputs(newline, out);
		else
			character(out, text, length);
		text += length ? length : 1;
	}
}

void xml_text(FILE *out, const char *text)
{
	write_text(out, text, "\n");
}

void xml_attribute(FILE *out, const char *name, const char *text)
{
	fprintf(out, " %s=\"", name);
	/* a reader would convert a newline in an attribute to a space */
	write_text(out, text, "\\x0A");
	fputc('"', out);
}
