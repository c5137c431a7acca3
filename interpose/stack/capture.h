/* SPDX-License-Identifier: MIT
 *
 * The calling thread's native stack, captured by a walk (walk.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "interpose/stack/frames.h"
#include "ledger/format.h"

/* room for gpuleak's own innermost frames, which a capture leaves out */
#define STACK_OWN_FRAMES 12
#define STACK_FRAMES_MAX (LEDGER_FRAMES_MAX + STACK_OWN_FRAMES + 1)

/* A captured stack; lives on the caller's own stack. */
struct capture {
	void *pcs[STACK_FRAMES_MAX];
	void **first; /* the innermost frame outside gpuleak */
	unsigned int frames;
	unsigned int native; /* less than `frames`: the rest are frames of a goroutine */
	bool cut;
};

/* Locking: the caller holds no lock except the calling thread's own, because this calls the loader.
 * Captures the WANTED innermost frames. BY_WALKING: looks up unwind information in the modules that
 * are loaded now, and ignores libunwind's per-address cache. */
void capture_frames(unsigned int wanted, bool by_walking, struct capture *ret);

/* Locking: the same. Captures the WANTED frames above CALLER by the rules of frames.h. WALKS is the
 * calling thread's. Returns false if a frame has no rule, or if libunwind is missing or must not
 * run now. */
bool capture_by_rules(const struct caller *caller, struct frames_walks *walks, unsigned int wanted,
		      struct capture *ret);

/* Stores the stack pointer of each frame of CAPTURE in RET. Then stores the address at which the
 * outermost frame ends, UINT64_MAX if unwinding ends there. RET has room for one entry more than
 * CAPTURE has frames. Returns false if a second walk of the stack fails or finds other frames. */
bool capture_find_places(const struct capture *capture, uint64_t *ret);

/* Returns false in a signal handler that interrupted a handler's walk, which interrupted another
 * walk. */
bool stack_may_be_walked(void);

/* Returns true if gpuleak also has frames further out on the calling thread's stack than the call
 * in progress, or if that is not known. */
bool stack_is_nested(void);

/* Returns true if a frame of the calling thread lies inside libc's exit(). All frames are checked,
 * whatever GPULEAK_STACK_DEPTH is. */
bool stack_inside_exit(void);
