/* SPDX-License-Identifier: MIT
 *
 * UTF-8 by the letter of Unicode's table 3-7, and two ways to deal with what is not.
 */
#include "escape.h"

#include <stdlib.h>
#include <string.h>

static int continues(unsigned char byte)
{
	return (byte & 0xc0) == 0x80;
}

size_t utf8_length(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	if (at[0] < 0x80)
		return at[0] ? 1 : 0;
	if (at[0] < 0xc2 || at[0] > 0xf4 || !continues(at[1]))
		return 0;
	if (at[0] < 0xe0)
		return 2;
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
	    (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
		return 0;
	if (!continues(at[2]))
		return 0;
	if (at[0] < 0xf0)
		return 3;
	return continues(at[3]) ? 4 : 0;
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
		const unsigned char *at = (const unsigned char *)text;
		size_t length = utf8_length(text);
		int control = at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);

		if (length && !control) {
			fwrite(text, 1, length, out);
			text += length;
			continue;
		}
		for (length = length ? length : 1; length; length--, text++)
			fprintf(out, "\\x%02X", (unsigned int)(unsigned char)*text);
	}
}

char *utf8_repair(const char *text)
{
	static const char replacement[] = "\xef\xbf\xbd";
	char *ret = malloc(3 * strlen(text) + 1);
	char *to = ret;

	if (!ret)
		return NULL;
	while (*text) {
		size_t length = utf8_length(text);

		memcpy(to, length ? text : replacement, length ? length : 3);
		to += length ? length : 3;
		text += length ? length : 1;
	}
	*to = '\0';
	return ret;
}
