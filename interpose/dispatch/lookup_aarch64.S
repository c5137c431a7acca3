/* SPDX-License-Identifier: MIT
 *
 * dlsym(handle, name) on aarch64: see lookup_x86_64.S.
 */
#include "interpose/base/entry_aarch64.inc"

	.text
	function_begin dlsym
	frame_begin 32
	stp	x0, x1, [sp, #16]
	mov	x2, x30			/* the caller */
	bl	lookup_before
	mov	x16, x0
	mov	x17, x1
	ldp	x0, x1, [sp, #16]
	frame_end 32
	cbz	x17, 1f
	mov	x0, x16
	ret
1:	jump_to	lookup_real_dlsym
	function_end dlsym
	.section .note.GNU-stack, "", %progbits
