/* SPDX-License-Identifier: MIT
 *
 * Checks the offsets of a CPython that is newer than the newest row of python_offsets.def, on the
 * calling thread's own frames. The offsets may be wrong, so everything is read by the kernel: an
 * address that is not mapped is an error, no crash.
 */
#include "interpose/stack/python.h"

#include <sys/uio.h>
#include <unistd.h>

#define CHECKED_MAX 64u          /* most frames that one check reads */
#define OWNER_MAX 7u             /* larger values are no owner of a frame */
#define TABLE_BYTES_MAX 65536u   /* code with a larger line table is not checked */
#define UNIT_BYTES 2             /* of an instruction */
#define TAG_BITS 3u              /* see python.c */

static bool read_at(uintptr_t at, void *ret, size_t size)
{
	struct iovec here = { ret, size }, there = { (void *)at, size };

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

static bool read_word(uintptr_t at, uintptr_t *ret)
{
	return read_at(at, ret, sizeof(*ret));
}

static bool has_type(uintptr_t object, const void *type)
{
	uintptr_t found;

	return python_plausible(object) && read_word(object + PYTHON_TYPE, &found) &&
	       found == (uintptr_t)type;
}

/* Returns true if OBJECT is a string in one of the forms that python_names.c reads. */
static bool is_text(const struct python *python, uintptr_t object)
{
	uint32_t state, width;

	if (!has_type(object, python->text_type) ||
	    !read_at(object + PYTHON_STATE, &state, sizeof(state)))
		return false;
	width = state >> 2 & 7;
	return (state & 0x20) && (width == 1 || width == 2 || width == 4);
}

/* Returns true if the line table describes exactly UNITS code units. The first byte of an entry has
 * its highest bit set, and the number of units in its lowest three bits. */
static bool lines_cover(const struct python *python, uintptr_t lines, uint64_t units)
{
	uint8_t part[256];
	uint64_t size, covered = 0;

	if (!has_type(lines, python->bytes_type) || !read_word(lines + PYTHON_SIZE, &size) ||
	    size > TABLE_BYTES_MAX)
		return false;
	for (uint64_t at = 0; at < size; at += sizeof(part)) {
		size_t bytes = size - at < sizeof(part) ? size - at : sizeof(part);

		if (!read_at(lines + PYTHON_BYTES + at, part, bytes))
			return false;
		for (size_t i = 0; i < bytes; i++)
			covered += part[i] & 0x80 ? (part[i] & 7) + 1u : 0;
	}
	return covered == units;
}

/* Returns true if FRAME's code object has names, a file and a line table, and if the instruction is
 * the one that CPython itself returns. */
static bool frame_holds(const struct python *python, uintptr_t frame)
{
	const struct python_offsets *at = &python->at;
	uintptr_t code, name, file, lines, instruction;
	uint64_t units;
	int64_t offset;

	if (!read_word(frame + (unsigned int)at->code, &code))
		return false;
	code &= ~(uintptr_t)TAG_BITS;
	if (!has_type(code, python->code_type) || !read_word(code + PYTHON_SIZE, &units) ||
	    !read_word(code + (unsigned int)at->name, &name) || !is_text(python, name) ||
	    !read_word(code + (unsigned int)at->filename, &file) || !is_text(python, file) ||
	    !read_word(code + (unsigned int)at->lines, &lines) ||
	    !lines_cover(python, lines, units) ||
	    !read_word(frame + (unsigned int)at->at, &instruction))
		return false;
	offset = (int64_t)(instruction - code) - at->bytecode;
	return offset >= -UNIT_BYTES && offset < (int64_t)units * UNIT_BYTES &&
	       python->instruction((void *)frame) == offset;
}

enum python_layout python_check(const struct python *python, uintptr_t thread)
{
	const struct python_offsets *at = &python->at;
	unsigned int checked = 0;
	uintptr_t frame;
	uint8_t owner;

	/* The thread state begins with its neighbours. */
	if (!python->instruction || at->frame == 0 ||
	    !read_word(thread + (unsigned int)at->frame, &frame))
		return PYTHON_LAYOUT_WRONG;
	for (unsigned int i = 0; frame && i < CHECKED_MAX; i++) {
		if (!python_plausible(frame) ||
		    !read_at(frame + (unsigned int)at->owner, &owner, sizeof(owner)) ||
		    owner > OWNER_MAX)
			return PYTHON_LAYOUT_WRONG;
		if (owner < PYTHON_OWNER_SHIM) {
			if (!frame_holds(python, frame))
				return PYTHON_LAYOUT_WRONG;
			checked++;
		}
		if (!read_word(frame + (unsigned int)at->previous, &frame))
			return PYTHON_LAYOUT_WRONG;
	}
	return checked ? PYTHON_LAYOUT_HOLDS : PYTHON_LAYOUT_UNKNOWN;
}
