/* SPDX-License-Identifier: MIT
 *
 * The frames of a goroutine that calls C. Go runs C on a stack of the thread, and its own code on
 * a stack of the goroutine. The native walk ends where runtime.asmcgocall() changed the stack.
 * Must not trust what it reads there.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* runtime.asmcgocall()'s frame: the return address of its call of C, and registers. */
struct go_call {
	const void *pc;
	uint64_t stack_pointer;
	uint64_t frame_pointer; /* 0: unknown */
};

/* Returns true if PC, the outermost pc of a walk, is in asmcgocall(), behind its call of C. */
bool goroutine_calls_c(const void *pc);

/* Stores up to SIZE pcs of the goroutine's frames, innermost first, and returns their number.
 * IS_SURE: CALL is known to be right, so memory is not tested before it is read. */
unsigned int goroutine_frames(const struct go_call *call, bool is_sure, void **pcs,
			      unsigned int size);
