/* SPDX-License-Identifier: MIT
 *
 * How to unwind a frame on aarch64, from the tables of its module.
 */
#ifndef GPULEAK_FRAMES_AARCH64_H
#define GPULEAK_FRAMES_AARCH64_H

#include <stdbool.h>
#include <stdint.h>

enum frame_how {
	FRAME_NO_TABLE, /* no unwind information, or it is unreadable or needs other registers */
	FRAME_BY_TABLE,
	FRAME_OUTERMOST,
	FRAME_OF_SIGNAL, /* the code to which a signal handler returns */
};

/* How to unwind from one address, in words. A frame ends at `end` above the stack pointer or, if
 * by_pointer, above the frame pointer. The caller's frame pointer and the return address are saved
 * `frame_pointer` and `link` words below the frame's end. 0: the value is still in its register. */
struct frame_rule {
	uint64_t how : 2; /* enum frame_how */
	uint64_t by_pointer : 1;
	uint64_t end : 20;
	uint64_t frame_pointer : 20;
	uint64_t link : 20;
};

/* Returns how to unwind from PC, the address of an instruction or, if IS_EXACT is false, a return
 * address. Takes the locks that eh_frame_find() takes. */
struct frame_rule frame_rule_at(uint64_t pc, bool is_exact);

/* Forgets what frame_rule_at() found so far. */
void frame_rules_forget(void);

#endif
