/* SPDX-License-Identifier: MIT
 *
 * Finds and reads entries of .eh_frame, in the encodings that compilers and linkers write. Owns no
 * state. Trusts a loaded module's own tables as far as the unwinder does.
 */
#include "interpose/stack/eh_frame.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "interpose/dispatch/find_module.h"

#define ENC_PCREL_SDATA4 0x1b   /* the encodings that compilers use for addresses in FDEs */
#define ENC_PCREL_SDATA8 0x1c   /* of code for the large model */
#define ENC_DATAREL_SDATA4 0x3b /* the encoding that linkers use in .eh_frame_hdr */

uint8_t eh_read_u8(struct eh_reader *r)
{
	if (r->at >= r->end) {
		r->bad = true;
		return 0;
	}
	return *r->at++;
}

/* Reads a LEB128 number, which has seven bits in each byte. Stores the number of bits in *RET_BITS
 * and the last byte in *RET_LAST. */
static uint64_t read_leb(struct eh_reader *r, unsigned int *ret_bits, uint8_t *ret_last)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = eh_read_u8(r);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80 && !r->bad);
	*ret_bits = shift;
	*ret_last = byte;
	return value;
}

uint64_t eh_read_uleb(struct eh_reader *r)
{
	unsigned int bits;
	uint8_t last;

	return read_leb(r, &bits, &last);
}

int64_t eh_read_sleb(struct eh_reader *r)
{
	unsigned int bits;
	uint8_t last;
	uint64_t value = read_leb(r, &bits, &last);

	if (last & 0x40 && bits < 64)
		value |= ~UINT64_C(0) << bits;
	return (int64_t)value;
}

void eh_skip(struct eh_reader *r, uint64_t bytes)
{
	if (bytes > (uint64_t)(r->end - r->at))
		r->bad = true;
	else
		r->at += bytes;
}

/* Opens the CIE or FDE at AT. *RET covers the bytes after its length field. Returns false if AT is
 * the end of the section, or if the entry has a 64-bit length. */
static bool open_entry(const uint8_t *at, struct eh_reader *ret)
{
	uint32_t length;

	memcpy(&length, at, sizeof(length));
	/* the end of the section, or a 64-bit entry, which is not supported */
	if (length == 0 || length == 0xffffffffu)
		return false;
	*ret = (struct eh_reader){ .at = at + 4, .end = at + 4 + length };
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

/* Reads what the letters of a CIE's AUGMENTATION announce. Stores the encoding of addresses in its
 * FDEs in *RET_ENCODING. Returns false for an unknown letter. */
static bool read_augmentation(struct eh_reader *r, const char *augmentation, struct eh_entry *ret,
			      uint8_t *ret_encoding)
{
	unsigned int size;

	for (const char *letter = augmentation; *letter && !r->bad; letter++) {
		switch (*letter) {
		case 'R':
			*ret_encoding = eh_read_u8(r);
			break;
		case 'L':
			eh_read_u8(r);
			break;
		case 'P':
			size = pointer_size(eh_read_u8(r));
			if (!size)
				return false;
			eh_skip(r, size);
			break;
		case 'S':
			ret->is_signal_frame = true;
			break;
		case 'B': /* aarch64: return addresses are signed with the second key */
		case 'G': /* aarch64: the frame has memory tags */
			break;
		default:
			return false;
		}
	}
	return !r->bad;
}

static bool read_cie(const uint8_t *at, struct eh_entry *ret, uint8_t *ret_encoding)
{
	struct eh_reader r, augmented;
	const char *augmentation;
	uint64_t length;

	if (!open_entry(at, &r))
		return false;
	eh_skip(&r, 4); /* id, 0 */
	if (eh_read_u8(&r) != 1)
		return false;
	augmentation = (const char *)r.at;
	while (eh_read_u8(&r))
		;
	ret->code_alignment = eh_read_uleb(&r);
	ret->data_alignment = eh_read_sleb(&r);
	eh_read_uleb(&r); /* return register */
	if (r.bad || augmentation[0] != 'z')
		return false;
	length = eh_read_uleb(&r);
	augmented = r;
	eh_skip(&r, length);
	*ret_encoding = 0;
	ret->common = r;
	return !r.bad && read_augmentation(&augmented, augmentation + 1, ret, ret_encoding);
}

/* Reads a number of SIZE bytes. */
static int64_t read_signed(struct eh_reader *r, unsigned int size)
{
	const uint8_t *at = r->at;
	int64_t wide = 0;
	int32_t narrow = 0;

	eh_skip(r, size);
	if (r->bad)
		return 0;
	memcpy(size == 8 ? (void *)&wide : (void *)&narrow, at, size);
	return size == 8 ? wide : narrow;
}

static bool read_fde(const uint8_t *fde, const void *pc, struct eh_entry *ret)
{
	struct eh_reader r;
	const uint8_t *field;
	uint32_t to_cie;
	unsigned int size;
	uint8_t encoding;

	*ret = (struct eh_entry){ 0 };
	if (!open_entry(fde, &r))
		return false;
	field = r.at;
	memcpy(&to_cie, field, sizeof(to_cie));
	if (to_cie == 0 || !read_cie(field - to_cie, ret, &encoding) ||
	    (encoding != ENC_PCREL_SDATA4 && encoding != ENC_PCREL_SDATA8))
		return false;
	eh_skip(&r, 4);
	size = pointer_size(encoding);
	ret->start = (uintptr_t)r.at;
	ret->start += (uintptr_t)read_signed(&r, size);
	/* The number of bytes is never negative. */
	if ((uintptr_t)pc - ret->start >= (uintptr_t)read_signed(&r, size))
		return false;
	eh_skip(&r, eh_read_uleb(&r)); /* augmentation data */
	ret->own = r;
	return !r.bad;
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

bool eh_frame_find(const void *pc, struct eh_entry *ret)
{
	struct found_module module;
	const uint8_t *fde;

	if (!module_find(pc, &module) || !module.eh_frame)
		return false;
	fde = find_fde(module.eh_frame, pc);
	return fde && read_fde(fde, pc, ret);
}
