/* SPDX-License-Identifier: MIT
 *
 * Places and sizes as parts of a sentence, in buffers: the words of the gate's reasons and of
 * the differences between ranks.
 */
#ifndef GPULEAK_REPORT_DESCRIBE_PLACE_H
#define GPULEAK_REPORT_DESCRIBE_PLACE_H

#include <stdint.h>

#include "report/util/number.h"

struct report_stack;

#define DESCRIBE_SIZE_MAX (2 * NUMBER_MAX + 16)
#define DESCRIBE_PLACE_MAX 512

/* "12,582,912 bytes (12.0 MiB)": a budget is set to the exact number. */
const char *describe_size(uint64_t bytes, char ret[DESCRIBE_SIZE_MAX]);
/* "make_buffer (/abs/app.c:12), called from main" */
const char *describe_place(const struct report_stack *stack, char ret[DESCRIBE_PLACE_MAX]);

#endif
