/* SPDX-License-Identifier: MIT
 *
 * Writes sizes and places, which are parts of sentences, to buffers. The gate's reasons and the
 * sentences about ranks contain them. Each function writes to RET and returns it.
 */
#ifndef GPULEAK_REPORT_FORMAT_PLACE_H
#define GPULEAK_REPORT_FORMAT_PLACE_H

#include <stdint.h>

#include "report/util/number.h"

struct report_stack;

#define FORMAT_SIZE_MAX (2 * NUMBER_MAX + 16)
#define FORMAT_PLACE_MAX 512

/* Writes "12,582,912 bytes (12.0 MiB)". The exact number is for users who write a budget. */
const char *format_exact_size(uint64_t bytes, char ret[FORMAT_SIZE_MAX]);
/* Writes "make_buffer (/abs/app.c:12), called from main". */
const char *format_place(const struct report_stack *stack, char ret[FORMAT_PLACE_MAX]);

#endif
