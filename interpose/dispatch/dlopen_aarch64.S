/* SPDX-License-Identifier: MIT
 *
 * dlopen(file, flags) and dlmopen(namespace, file, flags) on aarch64: see dlopen_x86_64.S.
 */
	.text
	.globl	dlopen
	.type	dlopen, %function
	.p2align 4
dlopen:
	.cfi_startproc
	hint	#34			/* bti c */
	stp	x29, x30, [sp, #-32]!
	.cfi_def_cfa_offset 32
	.cfi_offset 29, -32
	.cfi_offset 30, -24
	mov	x29, sp
	str	x0, [sp, #16]
	mov	x2, x30			/* the caller */
	bl	opens_before		/* returns the flags to use */
	mov	w1, w0
	ldr	x0, [sp, #16]
	ldp	x29, x30, [sp], #32
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	adrp	x16, opens_real_dlopen
	ldr	x16, [x16, #:lo12:opens_real_dlopen]
	br	x16
	.cfi_endproc
	.size	dlopen, .-dlopen

	.globl	dlmopen
	.type	dlmopen, %function
	.p2align 4
dlmopen:
	.cfi_startproc
	hint	#34			/* bti c */
	stp	x29, x30, [sp, #-48]!
	.cfi_def_cfa_offset 48
	.cfi_offset 29, -48
	.cfi_offset 30, -40
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	mov	x3, x30			/* the caller */
	bl	opens_before_in
	ldp	x0, x1, [sp, #16]
	ldr	x2, [sp, #32]
	ldp	x29, x30, [sp], #48
	.cfi_restore 29
	.cfi_restore 30
	.cfi_def_cfa_offset 0
	adrp	x16, opens_real_dlmopen
	ldr	x16, [x16, #:lo12:opens_real_dlmopen]
	br	x16
	.cfi_endproc
	.size	dlmopen, .-dlmopen
	.section .note.GNU-stack, "", %progbits
