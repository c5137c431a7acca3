/* SPDX-License-Identifier: MIT
 *
 * Whether the unwinding of a frame depends on nothing but the stack pointer, the frame
 * pointer and the words they lead to: what the cache of stacks (stack_cache.h) relies on.
 */
#ifndef GPULEAK_FRAMES_H
#define GPULEAK_FRAMES_H

#include <stdbool.h>

enum frame_sort {
	FRAME_OTHER,      /* or there is no unwind information, or it can't be read */
	FRAME_BY_STACK,   /* its address is the stack pointer plus a constant, at every point */
	FRAME_BY_POINTER, /* at some points the frame pointer plus a constant */
};

/* How the function around PC (a return address minus 1) computes its frame address, by its
 * unwind information. Takes no lock. */
enum frame_sort frame_sort_of(const void *pc);

#endif
