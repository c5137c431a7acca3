/* SPDX-License-Identifier: MIT
 *
 * Call stacks: captured through libunwind's unw_backtrace (loaded at the first GPU call,
 * RTLD_LOCAL, so that its _Unwind_* stay out of everybody's way) and interned in the
 * ledger, each distinct stack once.
 */
#ifndef GPULEAK_STACKS_H
#define GPULEAK_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "format.h"
#include "lock.h"

struct recorder;
struct stripe;
struct stack_entry;

#define STACK_SHARDS 64
#define STACK_OWN_FRAMES 8 /* ours on top, left out */

struct stacks {
	struct {
		struct lock lock;
		struct stack_entry *entries;
	} __attribute__((aligned(64))) shard[STACK_SHARDS];
};

/* A captured stack; lives on the caller's own stack. */
struct capture {
	void *pcs[LEDGER_FRAMES_MAX + STACK_OWN_FRAMES + 1];
	void **first; /* innermost frame that is not ours */
	unsigned int frames;
	bool cut;
};

/* Loads the unwinder; 0 or -ENOENT. Once per process image. */
int stacks_load_unwinder(void);

/* Takes no lock and allocates nothing once a call site has been seen. */
void stack_capture(struct recorder *recorder, struct capture *ret);

/* The same, as deep as can be, whatever GPULEAK_STACK_DEPTH says. */
void stack_capture_deep(struct capture *ret);

/* The capture's ref in the ledger; 0 if there is no room or nothing was captured. STRIPE
 * is the calling thread's, locked. */
uint32_t stack_intern(struct recorder *recorder, struct stripe *stripe,
		      const struct capture *capture);

/* Some frame of the capture lies inside libc's exit(): the process is on its way out. */
bool stack_inside_exit(const struct capture *capture);

/* Forgets what the unwinder remembers of code that was unmapped. */
void stacks_flush_unwinder(void);

#endif
