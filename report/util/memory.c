/* SPDX-License-Identifier: MIT
 *
 * Formats text, reads files, lets arrays grow, and sorts them.
 */
#include "report/util/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "report/util/abrupt_end.h"

char *text_vformat(const char *format, va_list arguments)
{
	char *ret;

	if (vasprintf(&ret, format, arguments) < 0)
		abrupt_end_no_memory();
	return ret;
}

char *text_format(const char *format, ...)
{
	va_list arguments;
	char *ret;

	va_start(arguments, format);
	ret = text_vformat(format, arguments);
	va_end(arguments);
	return ret;
}

void *list_grow(void *items, size_t count, size_t size)
{
	/* The array has room up to the next power of two, at least for 16 items. */
	if (count != 0 && (count < 16 || (count & (count - 1)) != 0))
		return items;
	items = reallocarray(items, count ? 2 * count : 16, size);
	if (!items)
		abrupt_end_no_memory();
	return items;
}

void sort_list(void *items, size_t count, size_t size, int (*compare)(const void *, const void *))
{
	if (count)
		qsort(items, count, size, compare);
}

int read_to_end(int fd, size_t bytes_max, void **ret, size_t *ret_length)
{
	size_t length = 0, room = 4096;
	char *bytes = malloc(room);
	ssize_t n = 1;

	while (length <= bytes_max && n != 0) {
		n = read(fd, bytes + length, room - length);
		if (n < 0 && errno != EINTR) {
			int r = -errno;

			free(bytes);
			return r;
		}
		length += n > 0 ? (size_t)n : 0;
		if (length == room)
			bytes = realloc(bytes, room *= 2);
	}
	*ret = bytes;
	*ret_length = length;
	return 0;
}
