/* SPDX-License-Identifier: MIT
 *
 * Decodes UTF-8 as defined by Unicode's table 3-7, and lists the characters that are not
 * printed.
 */
#include "ledger/utf8.h"

#include <stdbool.h>

static bool continues(const unsigned char *at, size_t left, size_t index)
{
	return index < left && (at[index] & 0xc0) == 0x80;
}

size_t utf8_length_within(const char *text, size_t left)
{
	const unsigned char *at = (const unsigned char *)text;

	if (left == 0)
		return 0;
	if (at[0] < 0x80)
		return at[0] ? 1 : 0;
	if (at[0] < 0xc2 || at[0] > 0xf4 || !continues(at, left, 1))
		return 0;
	if (at[0] < 0xe0)
		return 2;
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
	    (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
		return 0;
	if (!continues(at, left, 2))
		return 0;
	if (at[0] < 0xf0)
		return 3;
	return continues(at, left, 3) ? 4 : 0;
}

unsigned int utf8_code_point(const char *text, size_t length)
{
	const unsigned char *at = (const unsigned char *)text;

	switch (length) {
	case 1:
		return at[0];
	case 2:
		return (at[0] & 0x1fu) << 6 | (at[1] & 0x3fu);
	case 3:
		return (at[0] & 0xfu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
	}
	return (at[0] & 7u) << 18 | (at[1] & 0x3fu) << 12 | (at[2] & 0x3fu) << 6 |
	       (at[3] & 0x3fu);
}

static bool is_shown(unsigned int code)
{
	static const struct {
		unsigned int first, last;
	} hidden[] = {
		{ 0x00, 0x1f }, { 0x7f, 0x9f },
		{ 0x061c, 0x061c }, /* Arabic letter mark */
		{ 0x200e, 0x200f }, /* left-to-right and right-to-left marks */
		{ 0x2028, 0x202e }, /* line separators; directional embeddings and overrides */
		{ 0x2066, 0x2069 }, /* directional isolates */
		{ 0xfeff, 0xfeff }, /* byte order mark */
	};

	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
		if (code >= hidden[i].first && code <= hidden[i].last)
			return false;
	return true;
}

size_t utf8_shown_within(const char *text, size_t left)
{
	size_t length = utf8_length_within(text, left);

	return length && is_shown(utf8_code_point(text, length)) ? length : 0;
}
