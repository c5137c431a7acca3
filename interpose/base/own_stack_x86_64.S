/* SPDX-License-Identifier: MIT
 *
 * aside_switch(work, data, top) on x86-64. The frame pointer keeps the address of this function's
 * frame on the caller's stack. So the unwinder finds the caller from the new stack.
 */
	.text
	.globl	aside_switch
	.hidden	aside_switch
	.type	aside_switch, @function
	.p2align 4
aside_switch:
	.cfi_startproc
	endbr64
	pushq	%rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	movq	%rdx, %rsp
	movq	%rdi, %rax
	movq	%rsi, %rdi
	call	*%rax
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size	aside_switch, .-aside_switch
	.section .note.GNU-stack, "", @progbits
