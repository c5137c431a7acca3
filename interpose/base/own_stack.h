/* SPDX-License-Identifier: MIT
 *
 * Runs work that needs more stack than a thread may have left. An application may make a GPU call
 * on a signal stack of 8 KiB, or in a thread of 16 KiB.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Calls WORK(DATA) on a stack of gpuleak's own. The unwinder finds the thread's own frames behind
 * those of WORK. If there is no memory for a stack, or the thread already runs on a stack of
 * gpuleak's own, WORK runs on the caller's stack. Safe in a signal handler; WORK may read the
 * caller's errno.
 *
 * The thread cannot be cancelled meanwhile, and signals wait: a handler of the application may need
 * more stack than there is here, and a garbage collector's handler scans the thread's stack from
 * its own frame. Only signals that a fault of the thread itself raises (SIGSEGV and so on) can't
 * wait. */
void aside(void (*work)(void *data), void *data);

/* Internals of own_stack.c: where an aside() of the thread is in progress. */
struct aside_place {
	uintptr_t low;     /* lowest address of its stack; 0: the work has returned */
	uintptr_t at;      /* frame address of the call */
	uintptr_t outside; /* free part of the caller's stack */
	uint64_t mask;     /* the thread's signal mask before */
	unsigned int depth;
};

/* aside() in two halves: between them the thread is on its own stack again, and signals still
 * wait. The caller must call both. */
struct aside {
	struct aside_place before;
	uint64_t mask;
	bool nested; /* there is nothing to end */
};
void aside_begin(struct aside *ret, void (*work)(void *data), void *data);
void aside_end(const struct aside *aside);

/* For WORK of aside() that waits for another thread, or calls code of the application: calls
 * WORK(DATA) on the stack of aside()'s caller, with the signal mask of the application. Elsewhere
 * only calls WORK(DATA). */
void aside_outside(void (*work)(void *data), void *data);

/* Returns how many calls of aside() the thread has in progress. It is more than 0 only in signal
 * handlers, and in the work itself. */
unsigned int aside_depth(void);

/* The thread left the work of aside() by a jump. Makes the signals arrive again that still wait for
 * its end. */
void aside_release_left(void);

/* Returns true if AT lies on the stack on which the thread's last aside() ran its work, and that
 * work has not returned. It may still run, or it was left by a jump. */
bool aside_is_on(uintptr_t at);
