/* SPDX-License-Identifier: MIT
 *
 * Walks the calling thread's stack, frame by frame, from the unwind information of the modules that
 * are loaded now. On x86-64 libunwind's cursor does that; libunwind 1.6 stops on aarch64 at a
 * function that signs its return address, so there gpuleak reads the tables itself.
 *
 * Locking: the caller holds no lock except the calling thread's own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "interpose/stack/arch.h"

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
bool walk_frame_pointer(struct stack_walk *walk, uint64_t *ret);

/* Stores up to SIZE pcs of the stack, innermost first, and returns their number. This is the
 * fastest way. It may use unwind information of modules that have been unloaded. */
int walk_fast(void **pcs, int size);

/* Forgets all unwind information. Called after code was unmapped. */
void walk_forget(void);

/* Prepares the walks: see unwinder_load(). Returns 0, or -errno if stacks cannot be recorded. */
int walk_load(void);
