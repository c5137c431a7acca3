/* SPDX-License-Identifier: MIT
 *
 * Formats numbers for people, and adds and subtracts them without overflow.
 * The format_*() functions write to RET and return it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "report/util/compare.h"

static inline uint64_t add_bounded(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* Returns FROM - WHAT, and 0 if WHAT is larger. */
static inline uint64_t less(uint64_t from, uint64_t what)
{
	return from > what ? from - what : 0;
}

/* Returns the suffix of a plural such as "blocks": "" if COUNT is 1. */
static inline const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

#define NUMBER_MAX 32

/* Writes "12,582,912". */
char *format_number(uint64_t number, char ret[NUMBER_MAX]);

/* Writes PART as a percentage of ALL ("98.7%"). Writes "100.0%" only if PART is ALL. */
char *format_percent(uint64_t part, uint64_t all, char ret[NUMBER_MAX]);

/* Writes "12.0 MiB"; below 1 KiB "512 bytes" or "1 byte". */
char *format_size(uint64_t bytes, char ret[NUMBER_MAX]);

/* Writes nanoseconds as "3.2 s", "60 s" or "20 min". */
char *format_seconds(uint64_t ns, char ret[NUMBER_MAX]);

/* The same as text that is valid until the end of the block. */
#define NUMBER(number) format_number(number, (char[NUMBER_MAX]){ 0 })
#define PERCENT(part, all) format_percent(part, all, (char[NUMBER_MAX]){ 0 })
#define SECONDS(ns) format_seconds(ns, (char[NUMBER_MAX]){ 0 })
#define SIZE(bytes) format_size(bytes, (char[NUMBER_MAX]){ 0 })
