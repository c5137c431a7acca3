/* SPDX-License-Identifier: MIT
 *
 * Allocates memory that the caller frees. Nothing here fails, as malloc() does not either: see
 * report/util/abrupt_end.h.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "report/util/compare.h"

/* Returns formatted text. */
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *text_vformat(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));

/* Reads FD until its end, but at most one byte more than BYTES_MAX. Does not use the file's size,
 * because a pipe has none. Returns 0 or -errno. */
int read_to_end(int fd, size_t bytes_max, void **ret, size_t *ret_length);

/* Makes room for one more item in the array ITEMS, which has COUNT items of SIZE bytes and only
 * grows by this function. Returns the array, which may have moved. New room is not zeroed. */
void *list_grow(void *items, size_t count, size_t size);

/* Makes room for one more item, adds 1 to COUNT, and returns a pointer to the item, which is not
 * zeroed. */
#define LIST_ADD(items, count) \
	((items) = list_grow(items, count, sizeof(*(items))), &(items)[(count)++])

/* Sorts the COUNT ITEMS, which may be NULL if there are none. */
#define SORT(items, count, compare) sort_list(items, count, sizeof(*(items)), compare)
void sort_list(void *items, size_t count, size_t size, int (*compare)(const void *, const void *));
