/* SPDX-License-Identifier: MIT
 *
 * Builds text in a buffer of fixed size. No allocation, no stdio, no locale. Any thread and signal
 * handlers may call it.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <string.h>

struct plain_text {
	char *at;
	size_t left; /* room, without the final 0 */
	int result;  /* 0, or -ENAMETOOLONG since something did not fit: then nothing is added */
};

static inline void plain_text_bytes(struct plain_text *text, const char *bytes, size_t length)
{
	if (text->result == 0 && length > text->left)
		text->result = -ENAMETOOLONG;
	if (text->result)
		return;
	memcpy(text->at, bytes, length);
	text->at += length;
	text->left -= length;
	*text->at = '\0';
}

static inline void plain_text_add(struct plain_text *text, const char *added)
{
	plain_text_bytes(text, added, strlen(added));
}

static inline void plain_text_number(struct plain_text *text, unsigned long long number)
{
	char digits[24];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	plain_text_bytes(text, digits + at, sizeof(digits) - at);
}
