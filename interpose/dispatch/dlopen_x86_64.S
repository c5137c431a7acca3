/* SPDX-License-Identifier: MIT
 *
 * dlopen(file, flags) and dlmopen(namespace, file, flags) on x86-64. They call dlopen.c, then jump
 * to the real function. They do not call it, because libc takes $ORIGIN and DT_RUNPATH from the
 * library that the return address lies in.
 */
	.text
	.globl	dlopen
	.type	dlopen, @function
	.p2align 4
dlopen:
	.cfi_startproc
	endbr64
	movq	(%rsp), %rdx		/* the caller */
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	call	opens_before		/* returns the flags to use */
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	movl	%eax, %esi
	movq	opens_real_dlopen(%rip), %rax
	jmp	*%rax
	.cfi_endproc
	.size	dlopen, .-dlopen

	.globl	dlmopen
	.type	dlmopen, @function
	.p2align 4
dlmopen:
	.cfi_startproc
	endbr64
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	movq	24(%rsp), %rcx		/* the caller */
	call	opens_before_in
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	movq	opens_real_dlmopen(%rip), %rax
	jmp	*%rax
	.cfi_endproc
	.size	dlmopen, .-dlmopen
	.section .note.GNU-stack, "", @progbits
