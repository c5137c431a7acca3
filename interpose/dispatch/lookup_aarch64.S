/* SPDX-License-Identifier: MIT
 *
 * dlsym(handle, name) on aarch64: see lookup_x86_64.S.
 */
	.text
	.globl	dlsym
	.type	dlsym, %function
	.p2align 4
dlsym:
	.cfi_startproc
	hint	#34			/* bti c */
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	mov	x2, x30			/* the caller */
	bl	lookup_before
	mov	x16, x0
	mov	x17, x1
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	cbz	x17, 1f
	mov	x0, x16
	ret
1:	adrp	x16, lookup_real_dlsym
	ldr	x16, [x16, #:lo12:lookup_real_dlsym]
	br	x16
	.cfi_endproc
	.size	dlsym, .-dlsym
	.section .note.GNU-stack, "", %progbits
