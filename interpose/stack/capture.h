/* SPDX-License-Identifier: MIT
 *
 * The calling thread's native stack, captured through libunwind (unwinder.h).
 */
#ifndef GPULEAK_CAPTURE_H
#define GPULEAK_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"

#define STACK_OWN_FRAMES 12 /* ours on top, left out */

/* A captured stack; lives on the caller's own stack. */
struct capture {
	void *pcs[LEDGER_FRAMES_MAX + STACK_OWN_FRAMES + 1];
	void **first; /* innermost frame that is not ours */
	unsigned int frames;
	bool cut;
};

/* Locking: the caller holds no lock except the thread's own, because this asks the loader. Captures
 * the WANTED innermost frames. BY_WALKING: asks the modules that are loaded now, and does not use
 * what libunwind remembers of each address. */
void capture_frames(unsigned int wanted, bool by_walking, struct capture *ret);

/* Stores in RET, which has room for one more than CAPTURE's frames, where each frame begins on the
 * stack, and where the last one ends. Returns false if that is not known. */
bool capture_find_places(const struct capture *capture, uint64_t *ret);

/* Returns true if gpuleak has frames on the calling thread's stack further out than those of the
 * call under way, or if that is not known. */
bool stack_is_nested(void);

/* Returns true if some frame of the calling thread, whatever GPULEAK_STACK_DEPTH says, lies inside
 * libc's exit(): the process is on its way out. */
bool stack_inside_exit(void);

/* Forgets what the unwinder remembers of code that was unmapped. */
void stacks_flush_unwinder(void);

#endif
