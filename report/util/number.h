/* SPDX-License-Identifier: MIT
 *
 * Formats numbers for readers, and adds numbers without overflow: a sum stops at the largest
 * number.
 */
#ifndef GPULEAK_REPORT_NUMBER_H
#define GPULEAK_REPORT_NUMBER_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t add_bounded(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* Returns a negative number, 0 or 1, for qsort. */
static inline int compare_numbers(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* Returns the ending of "blocks": "" for 1. */
static inline const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

#define NUMBER_MAX 32

/* "12,582,912" */
char *format_number(uint64_t number, char ret[NUMBER_MAX]);

/* "98.7%" of ALL: never 100.0% where one is missing. */
char *format_percent(uint64_t part, uint64_t all, char ret[NUMBER_MAX]);

/* "12.0 MiB"; "512 bytes", "1 byte" below 1 KiB. */
char *format_size(uint64_t bytes, char ret[NUMBER_MAX]);

#endif
