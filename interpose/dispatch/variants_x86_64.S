/* SPDX-License-Identifier: MIT
 *
 * The slots' entries of variants.c on x86-64. Each stores its slot for this thread and jumps to
 * the wrapper, so the wrapper finds its caller's frame and arguments unchanged.
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
	.type	slots_entries, @function
	.p2align 4
slots_entries:
	.cfi_startproc
	.set	at, 0
	.rept	rows_of_VARIANTS * 8		/* SLOTS */
	.p2align 4
	endbr64
	leaq	slots + at * 32(%rip), %rax
	jmp	1f
	.set	at, at + 1
	.endr
1:	movq	slots_taken@gottpoff(%rip), %r11
	movq	%rax, %fs:(%r11)
	jmp	*(%rax)
	.cfi_endproc
	.size	slots_entries, .-slots_entries
	.section .note.GNU-stack, "", @progbits
