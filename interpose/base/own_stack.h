/* SPDX-License-Identifier: MIT
 *
 * Runs work that needs more stack than a thread may have left. An application may make a GPU call
 * on a signal stack of 8 KiB, or in a thread of 16 KiB.
 */
#ifndef GPULEAK_ASIDE_H
#define GPULEAK_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

/* Calls WORK(DATA) on a stack of gpuleak's own. The unwinder finds the thread's own frames behind
 * those of WORK. The thread cannot be cancelled meanwhile. If there is no memory for a stack, or
 * the thread already runs on a stack of gpuleak's own, WORK runs on the caller's stack. Safe in a
 * signal handler; WORK may read the caller's errno. */
void aside(void (*work)(void *data), void *data);

/* Returns true if AT lies on the stack on which the thread's last aside() ran its work, and that
 * work has not returned. It may still run, or it was left by a jump. */
bool aside_is_on(uintptr_t at);

#endif
