/* SPDX-License-Identifier: MIT
 *
 * Call stacks: captured through libunwind (unwinder.h) and interned in the ledger, each
 * distinct stack once.
 */
#ifndef GPULEAK_STACKS_H
#define GPULEAK_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/format.h"
#include "ledger/lock.h"
#include "interpose/base/ref_table.h"

struct recorder;
struct stripe;

#define STACK_SHARDS 64
#define STACK_OWN_FRAMES 12 /* ours on top, left out */

/* What a wrapper's caller looks like from inside the wrapper: its frame pointer and the
 * return address, as the ABI lays them down. NULL where it is not known. */
struct caller {
	uint64_t frame_pointer;
	uint64_t pc;
};
#if defined(__x86_64__)
#define CALLER ((const struct caller *)__builtin_frame_address(0))
#else
#define CALLER ((const struct caller *)NULL)
#endif

/* A word above the caller. Of its value the lower half: two addresses less than 4 GiB apart have
 * different ones, others the same once in 2^32. */
struct word {
	uint32_t above; /* the caller, in words */
	uint32_t value;
};

/* A stack that was met before, and how to know it again: it is the same if these words
 * of the thread's stack, every one that its unwinding depends on, still hold the same values.
 * Small, and in a line of its own: whatever a call looks at, the application has to fetch again. */
struct memory {
	uint64_t pc;
	const struct caller *at;
	uint64_t frame_pointer; /* if by_pointer */
	uint64_t python; /* key of the frames of Python that ran, see python.h */
	uint32_t ref;
	uint32_t epoch;
	uint16_t words; /* 0: not learnt */
	uint16_t room;
	bool by_pointer;
	bool recent; /* new, or known again since the hand was here */
	uint32_t met; /* times met in vain */
	struct word *word;
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct memory) == 64, "a cache line");

/* One wrapper's caller can lie at one place of the stack below many different callers. */
#define STACK_CACHE_SETS 64 /* a bit each in a word */
#define MEMORY_WAYS 16
struct memory_set {
	struct memory way[MEMORY_WAYS];
	unsigned int hand; /* where the next one to be forgotten is looked for */
};

/* The remembered stacks of one thread. */
struct stack_cache {
	uint64_t used; /* a bit for each set that has something */
	struct memory_set set[STACK_CACHE_SETS];
};

struct stacks {
	struct {
		struct lock lock;
		struct ref_table refs; /* by hash */
	} __attribute__((aligned(64))) shard[STACK_SHARDS];
	struct stack_cache *cache; /* one for each stripe */
};

/* A captured stack; lives on the caller's own stack. */
struct capture {
	void *pcs[LEDGER_FRAMES_MAX + STACK_OWN_FRAMES + 1];
	void **first; /* innermost frame that is not ours */
	unsigned int frames;
	bool cut;
};

/* The ref of the calling thread's stack in the ledger; 0 if there is no room or none is
 * recorded. STRIPE is the calling thread's, locked; CALLER of the wrapper, or NULL. */
uint32_t stack_here(struct recorder *recorder, struct stripe *stripe, const struct caller *caller);

/* A thread begins to use STRIPE: gives it STRIPE's cache of stacks, without those of the thread
 * that used it before. */
void stack_join(struct recorder *recorder, struct stripe *stripe);

/* Returns true if gpuleak has frames on the calling thread's stack further out than those of the
 * call under way, or if that is not known. */
bool stack_is_nested(void);

/* Returns true if some frame of the calling thread, whatever GPULEAK_STACK_DEPTH says, lies inside
 * libc's exit(): the process is on its way out. */
bool stack_inside_exit(void);

/* Forgets what the unwinder remembers of code that was unmapped. */
void stacks_flush_unwinder(void);

#endif
