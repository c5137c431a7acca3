/* SPDX-License-Identifier: MIT
 *
 * Reads only as much of .eh_frame as is needed to recognize plain frames. Some functions realign
 * the stack or keep their frame address in another register. Their unwind instructions name that
 * register or contain an expression. Owns no state.
 */
#include "interpose/stack/walk.h"

#include "interpose/stack/eh_frame.h"

#define REG_FRAME_POINTER 6u
#define REG_STACK_POINTER 7u
#define REG_RETURN 16u

static bool is_plain_register(uint64_t reg)
{
	return reg == REG_FRAME_POINTER || reg == REG_STACK_POINTER;
}

static bool is_plain_base(uint64_t reg, bool *by_pointer)
{
	*by_pointer |= reg == REG_FRAME_POINTER;
	return is_plain_register(reg);
}

/* Reads the operands of the call frame instruction OP, whose upper two bits are zero. Sets
 * *BY_POINTER if OP makes the frame pointer the base of the frame's address. Returns false if OP is
 * unknown or makes the frame not plain. */
static bool instruction_is_plain(struct eh_reader *r, uint8_t op, bool *by_pointer)
{
	uint64_t reg;

	switch (op) {
	case 0x00: /* nop */
	case 0x0a: /* remember_state */
	case 0x0b: /* restore_state */
		return true;
	case 0x02: /* advance_loc1 */
		eh_skip(r, 1);
		return true;
	case 0x03: /* advance_loc2 */
		eh_skip(r, 2);
		return true;
	case 0x04: /* advance_loc4 */
		eh_skip(r, 4);
		return true;
	case 0x05: /* offset_extended */
	case 0x11: /* offset_extended_sf */
	case 0x14: /* val_offset */
		reg = eh_read_uleb(r);
		eh_read_uleb(r);
		return op != 0x14 || !(is_plain_register(reg) || reg == REG_RETURN);
	case 0x06: /* restore_extended */
	case 0x07: /* undefined: the outermost frame marks its return address with it */
	case 0x08: /* same_value */
	case 0x0e: /* def_cfa_offset */
	case 0x13: /* def_cfa_offset_sf */
	case 0x2e: /* GNU_args_size */
		eh_read_uleb(r);
		return true;
	case 0x09: /* register: the caller's value is in another register */
		reg = eh_read_uleb(r);
		eh_read_uleb(r);
		return !is_plain_register(reg) && reg != REG_RETURN;
	case 0x0c: /* def_cfa */
	case 0x12: /* def_cfa_sf */
		reg = eh_read_uleb(r);
		eh_read_uleb(r);
		return is_plain_base(reg, by_pointer);
	case 0x0d: /* def_cfa_register */
		return is_plain_base(eh_read_uleb(r), by_pointer);
	case 0x10: /* expression */
	case 0x16: /* val_expression */
		reg = eh_read_uleb(r);
		eh_skip(r, eh_read_uleb(r));
		return !is_plain_register(reg) && reg != REG_RETURN;
	default: /* def_cfa_expression, or unknown */
		return false;
	}
}

static bool instructions_are_plain(struct eh_reader *r, bool *by_pointer)
{
	while (r->at < r->end && !r->bad) {
		uint8_t op = eh_read_u8(r);

		switch (op >> 6) {
		case 1: /* advance_loc */
		case 3: /* restore */
			break;
		case 2: /* offset */
			eh_read_uleb(r);
			break;
		default:
			if (!instruction_is_plain(r, op, by_pointer))
				return false;
		}
	}
	return !r->bad;
}

enum frame_sort frame_sort_of(const void *pc)
{
	struct eh_entry entry;
	bool by_pointer = false;

	if (!eh_frame_find(pc, &entry) || entry.is_signal_frame ||
	    !instructions_are_plain(&entry.common, &by_pointer) ||
	    !instructions_are_plain(&entry.own, &by_pointer))
		return FRAME_OTHER;
	return by_pointer ? FRAME_BY_POINTER : FRAME_BY_STACK;
}
