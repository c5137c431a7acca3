/* SPDX-License-Identifier: MIT
 *
 * aside_switch(work, data, top) on aarch64. The frame pointer keeps the address of this function's
 * frame on the caller's stack. So the unwinder finds the caller from the new stack.
 */
#include "interpose/base/entry_aarch64.inc"

	.text
	.hidden	aside_switch
	function_begin aside_switch
	frame_begin 16
	.cfi_def_cfa_register 29
	mov	sp, x2
	mov	x9, x0
	mov	x0, x1
	blr	x9
	mov	sp, x29
	.cfi_def_cfa_register 31
	frame_end 16
	ret
	function_end aside_switch
	.section .note.GNU-stack, "", %progbits
