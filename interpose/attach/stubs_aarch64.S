/* SPDX-License-Identifier: MIT
 *
 * The same as stubs_x86_64.S on aarch64.
 */
#include "interpose/base/entry_aarch64.inc"
	.set	stubs, 0
#define HOOK(...) .set stubs, stubs + 1;
#define HAND(...) .set stubs, stubs + 1;
#include "interpose/dispatch/hooks.def"

	.text
	.globl	stub_entries
	.hidden	stub_entries
	.type	stub_entries, %function
	.hidden	stub_targets
	.hidden	stub_page
	.hidden	stub_request
	.p2align 5
stub_entries:
	.cfi_startproc
	.set	at, 0
	.rept	stubs
	.p2align 5
	hint	#34			/* bti c */
	adrp	x16, stub_targets + at * 8
	add	x16, x16, :lo12:stub_targets + at * 8
	adrp	x17, stub_page + 24	/* struct attach_page's `request` */
	ldr	w17, [x17, :lo12:stub_page + 24]
	b	9f
	.set	at, at + 1
	.endr
9:	cbnz	w17, 8f
	ldr	x16, [x16]
	br	x16
8:	frame_begin 96
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	str	x16, [sp, #80]
	bl	stub_request
	ldr	x16, [sp, #80]
	ldp	x0, x1, [sp, #16]
	ldp	x2, x3, [sp, #32]
	ldp	x4, x5, [sp, #48]
	ldp	x6, x7, [sp, #64]
	frame_end 96
	ldr	x16, [x16]
	br	x16
	function_end stub_entries
	.section .note.GNU-stack, "", %progbits
