/* SPDX-License-Identifier: MIT
 *
 * A walk on aarch64. Included by walk.h only.
 */
#pragma once

struct stack_walk {
	uint64_t pc, stack_pointer, frame_pointer;
	uint64_t link; /* value of the link register, if has_link */
	bool is_exact; /* pc is the address of an instruction, not a return address */
	bool has_stack_pointer;
	bool has_link;
	bool was_guessed; /* an inner frame had no unwind information; see can_read() */
	bool has_ended;   /* the frame is the outermost one */
};

/* Reads the registers of the function that uses it. */
#define walk_begin(begun)                                                                   \
	({                                                                                  \
		struct stack_walk *walk_ = (begun);                                               \
		*walk_ = (struct stack_walk){ .is_exact = true, .has_stack_pointer = true };      \
		__asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29"                   \
				 : "=&r"(walk_->pc), "=&r"(walk_->stack_pointer),           \
				   "=&r"(walk_->frame_pointer));                            \
		true;                                                                       \
	})
