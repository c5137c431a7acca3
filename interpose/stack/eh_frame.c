/* SPDX-License-Identifier: MIT
 *
 * Reads only as much of .eh_frame as is needed to recognize plain frames. Some functions realign
 * the stack or keep their frame address in another register. Their unwind instructions name that
 * register or contain an expression. Owns no state. Trusts a loaded module's own tables as far as
 * the unwinder does.
 */
#include "interpose/stack/eh_frame.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "interpose/dispatch/find_module.h"

#if defined(__x86_64__)
#define REG_FRAME_POINTER 6u
#define REG_STACK_POINTER 7u
#define REG_RETURN 16u
#else /* aarch64: this file is not used there yet */
#define REG_FRAME_POINTER 29u
#define REG_STACK_POINTER 31u
#define REG_RETURN 30u
#endif

#define ENC_DATAREL_SDATA4 0x3b /* the encoding that linkers use in .eh_frame_hdr */

struct reader {
	const uint8_t *at, *end;
	bool bad;
	bool by_pointer; /* the frame pointer is the base of the frame's address */
};

static uint8_t read_u8(struct reader *r)
{
	if (r->at >= r->end) {
		r->bad = true;
		return 0;
	}
	return *r->at++;
}

static uint64_t read_uleb(struct reader *r)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = read_u8(r);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80 && !r->bad);
	return value;
}

static void skip(struct reader *r, uint64_t bytes)
{
	if (bytes > (uint64_t)(r->end - r->at))
		r->bad = true;
	else
		r->at += bytes;
}

static bool is_plain_register(uint64_t reg)
{
	return reg == REG_FRAME_POINTER || reg == REG_STACK_POINTER;
}

static bool is_plain_base(struct reader *r, uint64_t reg)
{
	r->by_pointer |= reg == REG_FRAME_POINTER;
	return is_plain_register(reg);
}

/* Reads the operands of the call frame instruction OP, whose upper two bits are zero. Returns false
 * if it is unknown or makes the frame not plain. */
static bool instruction_is_plain(struct reader *r, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case 0x00: /* nop */
	case 0x0a: /* remember_state */
	case 0x0b: /* restore_state */
		return true;
	case 0x02: /* advance_loc1 */
		skip(r, 1);
		return true;
	case 0x03: /* advance_loc2 */
		skip(r, 2);
		return true;
	case 0x04: /* advance_loc4 */
		skip(r, 4);
		return true;
	case 0x05: /* offset_extended */
	case 0x11: /* offset_extended_sf */
	case 0x14: /* val_offset */
		reg = read_uleb(r);
		read_uleb(r);
		return op != 0x14 || !(is_plain_register(reg) || reg == REG_RETURN);
	case 0x06: /* restore_extended */
	case 0x07: /* undefined: the outermost frame marks its return address with it */
	case 0x08: /* same_value */
	case 0x0e: /* def_cfa_offset */
	case 0x13: /* def_cfa_offset_sf */
	case 0x2e: /* GNU_args_size */
		read_uleb(r);
		return true;
	case 0x09: /* register: the caller's value is in another register */
		reg = read_uleb(r);
		read_uleb(r);
		return !is_plain_register(reg) && reg != REG_RETURN;
	case 0x0c: /* def_cfa */
	case 0x12: /* def_cfa_sf */
		reg = read_uleb(r);
		read_uleb(r);
		return is_plain_base(r, reg);
	case 0x0d: /* def_cfa_register */
		return is_plain_base(r, read_uleb(r));
	case 0x10: /* expression */
	case 0x16: /* val_expression */
		reg = read_uleb(r);
		skip(r, read_uleb(r));
		return !is_plain_register(reg) && reg != REG_RETURN;
	default: /* def_cfa_expression, or unknown */
		return false;
	}
}

static bool instructions_are_plain(struct reader *r)
{
	while (r->at < r->end && !r->bad) {
		uint8_t op = read_u8(r);

		switch (op >> 6) {
		case 1: /* advance_loc */
		case 3: /* restore */
			break;
		case 2: /* offset */
			read_uleb(r);
			break;
		default:
			if (!instruction_is_plain(r, op))
				return false;
		}
	}
	return !r->bad;
}

/* Opens the CIE or FDE at AT. *RET covers the bytes after its length field. Returns false if it is
 * the end of the section or has a 64-bit length. */
static bool open_entry(const uint8_t *at, struct reader *ret)
{
	uint32_t length;

	memcpy(&length, at, sizeof(length));
	/* the end of the section, or a 64-bit entry, which is not supported */
	if (length == 0 || length == 0xffffffffu)
		return false;
	*ret = (struct reader){ .at = at + 4, .end = at + 4 + length };
	return length > 4;
}

static unsigned int pointer_size(uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case 0x00: /* absptr */
	case 0x04: /* udata8 */
	case 0x0c: /* sdata8 */
		return 8;
	case 0x03: /* udata4 */
	case 0x0b: /* sdata4 */
		return 4;
	default:
		return 0;
	}
}

/* Reads the CIE at AT: stores its instructions in *RET_CODE, and the encoding of addresses in its
 * FDEs in *RET_ENCODING. */
static bool read_cie(const uint8_t *at, struct reader *ret_code, uint8_t *ret_encoding)
{
	struct reader r;
	const char *augmentation, *letter;

	if (!open_entry(at, &r))
		return false;
	skip(&r, 4); /* id, 0 */
	if (read_u8(&r) != 1)
		return false;
	augmentation = (const char *)r.at;
	while (read_u8(&r))
		;
	read_uleb(&r); /* code alignment */
	read_uleb(&r); /* data alignment: signed, of the same length */
	read_uleb(&r); /* return register */
	*ret_encoding = 0;
	if (r.bad || augmentation[0] != 'z')
		return false;
	read_uleb(&r);
	for (letter = augmentation + 1; *letter && !r.bad; letter++) {
		if (*letter == 'R') {
			*ret_encoding = read_u8(&r);
		} else if (*letter == 'L') {
			read_u8(&r);
		} else if (*letter == 'P') {
			unsigned int size = pointer_size(read_u8(&r));

			if (!size)
				return false;
			skip(&r, size);
		} else {
			return false; /* S marks a signal frame; other letters are unknown */
		}
	}
	*ret_code = r;
	return !r.bad;
}

static enum frame_sort sort_of(const uint8_t *fde, const void *pc)
{
	struct reader r, code;
	const uint8_t *field;
	uint32_t to_cie;
	int32_t start;
	uint32_t range;
	uint8_t encoding;

	if (!open_entry(fde, &r))
		return FRAME_OTHER;
	field = r.at;
	memcpy(&to_cie, field, sizeof(to_cie));
	if (to_cie == 0 || !read_cie(field - to_cie, &code, &encoding) || encoding != 0x1b)
		return FRAME_OTHER; /* compilers write pcrel sdata4 */
	skip(&r, 4);
	memcpy(&start, r.at, sizeof(start));
	memcpy(&range, r.at + 4, sizeof(range));
	if ((uintptr_t)pc - ((uintptr_t)r.at + (uintptr_t)(intptr_t)start) >= range)
		return FRAME_OTHER;
	skip(&r, 8);
	skip(&r, read_uleb(&r)); /* augmentation data */
	if (r.bad || !instructions_are_plain(&code) || !instructions_are_plain(&r))
		return FRAME_OTHER;
	return code.by_pointer || r.by_pointer ? FRAME_BY_POINTER : FRAME_BY_STACK;
}

/* Returns the FDE for PC from the search table of .eh_frame_hdr, or NULL if there is none. */
static const uint8_t *find_fde(const uint8_t *header, const void *pc)
{
	const struct { int32_t start, fde; } *table = (const void *)(header + 12);
	intptr_t wanted = (intptr_t)pc - (intptr_t)header;
	uint32_t low = 0, high;

	if (header[0] != 1 || pointer_size(header[1]) != 4 || header[2] != 0x03 ||
	    header[3] != ENC_DATAREL_SDATA4)
		return NULL;
	memcpy(&high, header + 8, sizeof(high));
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (table[middle].start <= wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? header + table[low - 1].fde : NULL;
}

enum frame_sort frame_sort_of(const void *pc)
{
	struct found_module module;
	const uint8_t *fde;

	if (!module_find(pc, &module) || !module.eh_frame)
		return FRAME_OTHER;
	fde = find_fde(module.eh_frame, pc);
	return fde ? sort_of(fde, pc) : FRAME_OTHER;
}
