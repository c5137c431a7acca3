/* SPDX-License-Identifier: MIT
 *
 * dlopen(file, flags) and dlmopen(namespace, file, flags) on aarch64: see dlopen_x86_64.S.
 */
#include "interpose/base/entry_aarch64.inc"

	.text
	function_begin dlopen
	frame_begin 32
	str	x0, [sp, #16]
	mov	x2, x30			/* the caller */
	bl	opens_before		/* returns the flags to use */
	mov	w1, w0
	ldr	x0, [sp, #16]
	frame_end 32
	jump_to	opens_real_dlopen
	function_end dlopen

	function_begin dlmopen
	frame_begin 48
	stp	x0, x1, [sp, #16]
	str	x2, [sp, #32]
	mov	x3, x30			/* the caller */
	bl	opens_before_in
	ldp	x0, x1, [sp, #16]
	ldr	x2, [sp, #32]
	frame_end 48
	jump_to	opens_real_dlmopen
	function_end dlmopen
	.section .note.GNU-stack, "", %progbits
