/* SPDX-License-Identifier: MIT
 *
 * Checks whether a frame is plain. Unwinding a plain frame depends only on the stack pointer, the
 * frame pointer and the stack words that they point to. The cache of stacks (stack_cache.h) holds
 * only stacks of plain frames.
 */
#ifndef GPULEAK_FRAMES_H
#define GPULEAK_FRAMES_H

#include <stdbool.h>

enum frame_sort {
	FRAME_OTHER,      /* not plain, or its unwind information is missing or unreadable */
	FRAME_BY_STACK,   /* plain: its address is always the stack pointer plus a constant */
	/* plain: at some instructions its address is the frame pointer plus a constant */
	FRAME_BY_POINTER,
};

/* Returns how the function that contains PC computes its frame address, from its unwind
 * information. PC is a return address minus 1. Takes no lock. */
enum frame_sort frame_sort_of(const void *pc);

#endif
