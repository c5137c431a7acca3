/* SPDX-License-Identifier: MIT
 *
 * Questions of the program about its own blocks, behind what gpuleak.h promises: marks, sums
 * since a mark, whose block an address is, blocks to be ignored. Writes nothing into the ledger
 * but that a block is ignored; makes no recorder where there is none.
 */
#ifndef GPULEAK_ASK_H
#define GPULEAK_ASK_H

#include <stdatomic.h>
#include <stdint.h>

#include "ledger/format.h"
#include "interpose/recorder/recorder.h"

/* How often marks were set, plus 1. Of the process, and a forked child goes on with it: a mark
 * of before the fork has all of the child's blocks behind it. */
extern _Atomic uint32_t ask_marks __attribute__((visibility("hidden")));

/* What a block that this thread makes now carries in `marked`. */
static inline uint32_t ask_marked(void)
{
	return atomic_load_explicit(&ask_marks, memory_order_relaxed) | thread_self.ignored;
}

/* A new mark. */
uint32_t ask_mark(void);
void ask_ignoring(bool on);

struct ask_filter {
	uint64_t mark;    /* blocks made since */
	uint32_t thread;  /* by this thread, 0 = any */
	const char *kind; /* of this kind, NULL = any */
};
struct ask_sum {
	uint64_t blocks, bytes;
	uint64_t ignored_blocks, ignored_bytes; /* none of them above */
};
/* Adds live blocks up. Takes no lock: a block that is live all the time counts once. */
void ask_sum(struct recorder *recorder, const struct ask_filter *filter, struct ask_sum *ret);

/* The live block that is behind ADDRESS: begins there, has that handle, or else has ADDRESS
 * in it. With IGNORE it is ignored from now on. *RET is a copy, *RET_SPAN how many addresses it
 * takes. */
bool ask_block(struct recorder *recorder, uint64_t address, bool ignore, struct ledger_block *ret,
	       uint64_t *ret_span);

#endif
