/* SPDX-License-Identifier: MIT
 *
 * Walks the calling thread's stack, frame by frame, from the unwind information of the modules that
 * are loaded now. On x86-64 libunwind's cursor does that; libunwind 1.6 stops on aarch64 at a
 * function that signs its return address, so there gpuleak reads the tables itself.
 *
 * Locking: the caller holds no lock except the calling thread's own.
 */
#ifndef GPULEAK_WALK_H
#define GPULEAK_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/stack/arch.h"

/* How the frame's address is computed, and whether unwinding the frame depends only on stack
 * pointer, frame pointer and the stack words that they point to. Such a frame is plain. The cache
 * of stacks (stack_cache.h) holds only stacks of plain frames. */
enum frame_sort {
	FRAME_OTHER,      /* not plain, or its unwind information is missing or unreadable */
	FRAME_BY_STACK,   /* plain: its address is the stack pointer plus a constant */
	FRAME_BY_POINTER, /* plain: its address may be the frame pointer plus a constant */
};

enum walk_register { WALK_PC, WALK_FRAME_POINTER };

/* The value of a register in a frame, and the word of the stack that it was restored from. */
struct walk_value {
	const uint64_t *at; /* NULL: it is still in the register */
	uint64_t value;
};

#if defined(__x86_64__)
#include "interpose/stack/walk_x86_64.h"
#else
#include "interpose/stack/walk_aarch64.h"
#endif

/* bool walk_begin(struct stack_walk *walk), a macro: begins a walk at the frame of the function
 * that uses it, and returns false if walking is not possible. That function must not return before
 * the walk ends. */

/* Goes on to the caller's frame. Returns false after the outermost frame, or if the caller cannot
 * be found. */
bool walk_step(struct stack_walk *walk);

/* The functions below read the frame that WALK is at. They return false if a value is unknown. */
bool walk_pc(struct stack_walk *walk, uint64_t *ret);
bool walk_stack_pointer(struct stack_walk *walk, uint64_t *ret);
bool walk_value(struct stack_walk *walk, enum walk_register reg, struct walk_value *ret);
enum frame_sort walk_frame_sort(struct stack_walk *walk);

/* Stores up to SIZE pcs of the stack, innermost first, and returns their number. This is the
 * fastest way. It may use unwind information of modules that have been unloaded. */
int walk_fast(void **pcs, int size);

/* Forgets all unwind information. Called after code was unmapped. */
void walk_forget(void);

/* Prepares the walks: see unwinder_load(). Returns 0, or -errno if stacks cannot be recorded. */
int walk_load(void);

#endif
