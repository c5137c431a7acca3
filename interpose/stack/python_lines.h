/* SPDX-License-Identifier: MIT
 *
 * Reads the line tables of CPython's code objects.
 */
#ifndef GPULEAK_PYTHON_LINES_H
#define GPULEAK_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "interpose/stack/python.h"

/* Returns the line of the instruction at byte OFFSET, or 0 if it has none. TABLE has SIZE bytes;
 * its function begins at line FIRST. A negative OFFSET is before the first instruction. */
uint32_t python_line(enum python_table kind, const uint8_t *table, size_t size, int first,
		     int64_t offset);

#endif
