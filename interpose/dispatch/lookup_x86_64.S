/* SPDX-License-Identifier: MIT
 *
 * dlsym(handle, name) on x86-64. Calls lookup_before(), which decides whether gpuleak has a
 * result. If not, jumps to the real dlsym. A jump instead of a call keeps the caller's return
 * address: RTLD_NEXT and RTLD_DEFAULT depend on the caller.
 */
	.text
	.globl	dlsym
	.type	dlsym, @function
	.p2align 4
dlsym:
	.cfi_startproc
	endbr64
	movq	(%rsp), %rdx		/* the caller */
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	subq	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	lookup_before
	addq	$8, %rsp
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	testq	%rdx, %rdx
	jz	1f
	ret
1:	movq	lookup_real_dlsym(%rip), %rax
	jmp	*%rax
	.cfi_endproc
	.size	dlsym, .-dlsym
	.section .note.GNU-stack, "", @progbits
