/* SPDX-License-Identifier: MIT
 *
 * Builds and writes the few lines the library prints by itself. Owns no state.
 */
#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

void write_all(int fd, const char *bytes, size_t length)
{
	while (length) {
		ssize_t n = write(fd, bytes, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		bytes += n;
		length -= (size_t)n;
	}
}

/* Bytes that a terminal would obey are shown as '?': names come from the application. */
void text_add_bytes(struct text *text, const char *bytes, size_t length)
{
	for (size_t i = 0; i < length && text->left; i++, text->left--) {
		unsigned char c = (unsigned char)bytes[i];

		*text->at++ = (c < 0x20 && c != '\n') || c == 0x7f ? '?' : (char)c;
	}
}

void text_add(struct text *text, const char *part)
{
	text_add_bytes(text, part, strlen(part));
}

static void add_digits(struct text *text, uint64_t number, unsigned int base)
{
	char digits[24];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[number % base];
		number /= base;
	} while (number);
	text_add_bytes(text, digits + at, sizeof(digits) - at);
}

void text_add_number(struct text *text, uint64_t number)
{
	add_digits(text, number, 10);
}

void text_add_hex(struct text *text, uint64_t number)
{
	text_add(text, "0x");
	add_digits(text, number, 16);
}

void say(const char *part, ...)
{
	char line[1024];
	struct text text = { line, sizeof(line) };
	va_list parts;

	va_start(parts, part);
	for (; part; part = va_arg(parts, const char *))
		text_add(&text, part);
	va_end(parts);
	write_all(2, line, (size_t)(text.at - line));
}
