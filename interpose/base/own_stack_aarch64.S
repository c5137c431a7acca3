/* SPDX-License-Identifier: MIT
 *
 * aside_switch(work, data, top) on aarch64. The frame's address is in the frame pointer, so that
 * the unwinder goes on from the other stack to the caller's.
 */
	.text
	.globl	aside_switch
	.hidden	aside_switch
	.type	aside_switch, %function
	.p2align 4
aside_switch:
	.cfi_startproc
	hint	#34			/* bti c */
	stp	x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset 29, -16
	.cfi_offset 30, -8
	mov	x29, sp
	.cfi_def_cfa_register 29
	mov	sp, x2
	mov	x9, x0
	mov	x0, x1
	blr	x9
	mov	sp, x29
	.cfi_def_cfa_register 31
	ldp	x29, x30, [sp], #16
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	ret
	.cfi_endproc
	.size	aside_switch, .-aside_switch
	.section .note.GNU-stack, "", %progbits
