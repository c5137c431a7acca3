/* SPDX-License-Identifier: MIT
 *
 * Writes sizes and places, which are parts of sentences, to buffers. The gate's reasons and the
 * sentences about ranks contain them. Each function writes to RET and returns it.
 */
#pragma once

#include <stdint.h>

#include "report/util/number.h"

struct report_stack;

#define FORMAT_SIZE_MAX (2 * NUMBER_MAX + 16)
#define FORMAT_PLACE_MAX 512

/* Writes "12,582,912 bytes (12.0 MiB)". The exact number is for users who write a budget. */
const char *format_exact_size(uint64_t bytes, char ret[FORMAT_SIZE_MAX]);
/* Writes "1,234 blocks" for WHAT "block". */
const char *format_count(uint64_t count, const char *what, char ret[FORMAT_SIZE_MAX]);
/* Writes "1.25 s", "12.3 ms" or "41 us". */
const char *format_time(uint64_t ns, char ret[FORMAT_SIZE_MAX]);
/* Writes "make_buffer (/abs/app.c:12), called from main". */
const char *format_place(const struct report_stack *stack, char ret[FORMAT_PLACE_MAX]);

/* The same as text that is valid until the end of the block. */
#define EXACT_SIZE(bytes) format_exact_size(bytes, (char[FORMAT_SIZE_MAX]){ 0 })
#define COUNT(count, what) format_count(count, what, (char[FORMAT_SIZE_MAX]){ 0 })
#define TIME(ns) format_time(ns, (char[FORMAT_SIZE_MAX]){ 0 })
#define PLACE(stack) format_place(stack, (char[FORMAT_PLACE_MAX]){ 0 })
