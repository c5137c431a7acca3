/* SPDX-License-Identifier: MIT
 *
 * Finds the line of an instruction in the three formats of line tables that CPython has used.
 * Reads only the bytes of the table. Calls no function of CPython, because it may read data that
 * another thread is building for a debugger.
 */
#include "interpose/stack/python.h"

/* 3.8, 3.9: pairs of a number of bytes of code and a signed number of lines. A pair advances the
 * address by the one and the line by the other. */
static int64_t line_of_lnotab(const uint8_t *table, size_t size, int first, int64_t wanted)
{
	int64_t address = 0;
	int64_t line = first; /* 64 bits: the sum in a corrupt table may exceed an int */

	for (size_t i = 0; i + 1 < size; i += 2) {
		address += table[i];
		if (address > wanted)
			break;
		line += (int8_t)table[i + 1];
	}
	return line;
}

/* 3.10: pairs of a number of bytes of code and the signed distance of their line from the previous
 * line. -128: the code has no line. */
static int64_t line_of_lines(const uint8_t *table, size_t size, int first, int64_t wanted)
{
	int64_t end = 0;
	int64_t line = first;

	for (size_t i = 0; i + 1 < size; i += 2) {
		int8_t delta = (int8_t)table[i + 1];

		end += table[i];
		if (delta != -128)
			line += delta;
		if (wanted < end)
			return delta == -128 ? 0 : line;
	}
	return 0;
}

/* 3.11 on: each entry begins with a byte whose highest bit is set. Four bits of it are the form,
 * the lowest three are the number of code units minus one. */
enum form {
	FORM_ONE_LINE = 10, /* forms 10, 11 and 12 advance by 0, 1 and 2 lines */
	FORM_NO_COLUMNS = 13,
	FORM_LONG = 14,
	FORM_NONE = 15,
};
#define UNIT_BYTES 2

/* Reads a number of six bits per byte. The seventh bit is set if another byte follows. The lowest
 * bit of the number is its sign. */
static int signed_number(const uint8_t *table, size_t size, size_t at)
{
	uint32_t value = 0;

	for (unsigned int shift = 0; at < size && shift < 32; at++, shift += 6) {
		value |= (uint32_t)(table[at] & 63) << shift;
		if (!(table[at] & 64))
			break;
	}
	return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
}

static int64_t line_of_locations(const uint8_t *table, size_t size, int first, int64_t wanted)
{
	int64_t end = 0;
	int64_t line = first;

	for (size_t i = 0; i < size; i++) {
		int form = table[i] >> 3 & 15;

		if (!(table[i] & 0x80))
			continue; /* a later byte of an entry */
		end += ((table[i] & 7) + 1) * UNIT_BYTES;
		if (form == FORM_NO_COLUMNS || form == FORM_LONG)
			line += signed_number(table, size, i + 1);
		else if (form >= FORM_ONE_LINE && form < FORM_NO_COLUMNS)
			line += form - FORM_ONE_LINE;
		if (wanted < end)
			return form == FORM_NONE ? 0 : line;
	}
	return 0;
}

uint32_t python_line(enum python_table kind, const uint8_t *table, size_t size, int first,
		     int64_t offset)
{
	int64_t line = first; /* before the first instruction */

	if (offset >= 0 && kind == PYTHON_LNOTAB)
		line = line_of_lnotab(table, size, first, offset);
	else if (offset >= 0 && kind == PYTHON_LINES)
		line = line_of_lines(table, size, first, offset);
	else if (offset >= 0)
		line = line_of_locations(table, size, first, offset);
	return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}
