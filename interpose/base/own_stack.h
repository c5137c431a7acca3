/* SPDX-License-Identifier: MIT
 *
 * Work that needs more stack than a thread may have left. An application may call on a signal
 * stack of 8 KiB, or in a thread of 16 KiB.
 */
#ifndef GPULEAK_ASIDE_H
#define GPULEAK_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

/* Calls WORK(DATA) on a stack of gpuleak's own. The unwinder finds the thread's own frames
 * behind those of WORK. The thread cannot be cancelled meanwhile. If there is no memory for a
 * stack, or the thread is on one already, WORK runs on the caller's stack. Safe in a signal
 * handler; WORK may read the caller's errno. */
void aside(void (*work)(void *data), void *data);

/* Returns true if AT lies on the stack of gpuleak's own that the thread was on last, unless that
 * work returned. */
bool aside_is_on(uintptr_t at);

#endif
