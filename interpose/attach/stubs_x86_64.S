/* SPDX-License-Identifier: MIT
 *
 * What a lookup returns for a function that allocates, in a process that was started with
 * GPULEAK_RECORD=off: one for each hook. It jumps to the driver's function. Only if the page of
 * prepared.c has a request, it calls stub_request() first.
 */
	.set	stubs, 0
#define HOOK(...) .set stubs, stubs + 1;
#define HAND(...) .set stubs, stubs + 1;
#include "interpose/dispatch/hooks.def"

	.text
	.globl	stub_entries
	.hidden	stub_entries
	.hidden	stub_targets
	.hidden	stub_page
	.hidden	stub_request
	.type	stub_entries, @function
	.p2align 5
stub_entries:
	.cfi_startproc
	.set	at, 0
	.rept	stubs
	.p2align 5
	endbr64
	cmpl	$0, stub_page + 24(%rip)	/* struct attach_page's `request` */
	jne	2f
1:	jmp	*stub_targets + at * 8(%rip)
2:	leaq	stub_targets + at * 8(%rip), %rax
	jmp	serve
	.set	at, at + 1
	.endr
serve:
	.irp	register, %rdi, %rsi, %rdx, %rcx, %r8, %r9, %rax
	pushq	\register
	.cfi_adjust_cfa_offset 8
	.endr
	call	stub_request
	.irp	register, %rax, %r9, %r8, %rcx, %rdx, %rsi, %rdi
	popq	\register
	.cfi_adjust_cfa_offset -8
	.endr
	jmp	*(%rax)
	.cfi_endproc
	.size	stub_entries, .-stub_entries
	.section .note.GNU-stack, "", @progbits
