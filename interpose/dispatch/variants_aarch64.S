/* SPDX-License-Identifier: MIT
 *
 * The slots' entries of variants.c on aarch64: see variants_x86_64.S.
 */
	.set	rows, 0 /* clang's assembler needs it before the first row */
	.set	rows_of_GUARD, 0
	.set	rows_of_POOL, 0
	.set	rows_of_SUBMITS, 0
	.set	rows_of_LAUNCHES, 0
	.set	rows_of_VARIANTS, 0
#define GROUP_BEGIN(api, group) .set first_of_##group, rows
#define GROUP_END(api, group) .set rows_of_##group, rows_of_##group + rows - first_of_##group
#define HOOK(...) .set rows, rows + 1;
#define HAND(...) .set rows, rows + 1;
#include "interpose/dispatch/hooks.def"

	.text
	.globl	slots_entries
	.hidden	slots_entries
	.hidden	slots
	.hidden	slots_taken
	.type	slots_entries, %function
	.p2align 4
slots_entries:
	.cfi_startproc
	.set	at, 0
	.rept	rows_of_VARIANTS * 8		/* SLOTS */
	hint	#34			/* bti c */
	adrp	x16, slots + at * 32
	add	x16, x16, :lo12:slots + at * 32
	b	1f
	.set	at, at + 1
	.endr
1:	mrs	x17, tpidr_el0
	adrp	x9, :gottprel:slots_taken
	ldr	x9, [x9, #:gottprel_lo12:slots_taken]
	str	x16, [x17, x9]
	ldr	x17, [x16]
	br	x17
	.cfi_endproc
	.size	slots_entries, .-slots_entries
	.section .note.GNU-stack, "", %progbits
