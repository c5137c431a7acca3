/* SPDX-License-Identifier: MIT
 *
 * Finds, escapes and replaces bytes that must not reach a terminal unchanged. ledger/utf8.c
 * decides which bytes those are.
 */
#include "report/util/escape.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/utf8.h"
#include "report/util/memory.h"
#include "report/util/text_buffer.h"

size_t utf8_length(const char *text)
{
	return utf8_length_within(text, strnlen(text, 4));
}

size_t utf8_prefix(const char *text, size_t count)
{
	const char *at = text;

	for (size_t length; count && (length = utf8_length(at)) != 0; count--)
		at += length;
	return (size_t)(at - text);
}

void print_escaped(FILE *out, const char *text)
{
	while (*text) {
		size_t length = utf8_shown_within(text, strnlen(text, 4));

		if (length)
			fwrite(text, 1, length, out);
		else
			fprintf(out, "\\x%02X", (unsigned int)(unsigned char)*text);
		text += length ? length : 1;
	}
}

void eprintf(FILE *out, const char *format, ...)
{
	size_t end = strlen(format), length;
	FREE_AT_END char *text = NULL, *shown = NULL;
	va_list args;

	va_start(args, format);
	text = text_vformat(format, args);
	va_end(args);
	length = strlen(text);
	end = end && format[end - 1] == '\n' && length;
	text[length - end] = '\0';
	shown = PRINTED(to, {
		print_escaped(to, text);
		fputs(end ? "\n" : "", to);
	});
	fputs(shown, out);
}

char *utf8_repair(const char *text)
{
	static const char replacement[] = "\xef\xbf\xbd";
	char *ret = malloc(3 * strlen(text) + 1);
	char *to = ret;

	while (*text) {
		size_t length = utf8_length(text);

		memcpy(to, length ? text : replacement, length ? length : 3);
		to += length ? length : 3;
		text += length ? length : 1;
	}
	*to = '\0';
	return ret;
}
