/* SPDX-License-Identifier: MIT
 *
 * The line tables of CPython's code objects.
 */
#ifndef GPULEAK_PYTHON_LINES_H
#define GPULEAK_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "interpose/stack/python.h"

/* The line of the instruction at OFFSET bytes, in a table of SIZE bytes whose function begins at
 * line FIRST; 0: none. A negative OFFSET is before the first instruction. */
uint32_t python_line(enum python_table kind, const uint8_t *table, size_t size, int first,
		     int64_t offset);

#endif
