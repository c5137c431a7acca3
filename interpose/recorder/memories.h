/* SPDX-License-Identifier: MIT
 *
 * The memories that have a peak of their own: each device, and host memory. Owns their records in
 * the ledger, decides when a new peak is noted, and tells each thread its number. What call sites
 * had live at that moment is kept by live_bytes.h.
 */
#ifndef GPULEAK_MEMORIES_H
#define GPULEAK_MEMORIES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/hot.h"
#include "interpose/dispatch/hooks.h"
#include "ledger/format.h"

struct recorder;
struct thread_state;
struct thread_states;

/* A thread's part of one memory. */
struct memory_part {
	/* bytes in blocks that the thread allocated minus those that it freed; and the value above
	 * which a new peak is possible, see live_bytes_add() */
	_Atomic int64_t live, ceiling;
	/* the same of suballocations */
	_Atomic int64_t suballocated, suballocated_ceiling;
	_Atomic uint32_t peak; /* number of the last peak that was noted */
};

struct memory_peak {
	enum ledger_memory class;
	int device;
	bool has_suballocations;
	uint32_t number; /* of the last peak that was noted */
	struct ledger_peak_at peak;
	struct ledger_peak *record;
};

/* Number 0 is no memory. */
#define MEMORY_NUMBERS (LEDGER_MEMORIES_MAX + 1)

/* Returns the memory of a block of KIND, LENGTH bytes, that a call of API makes. */
enum ledger_memory memory_class(enum api api, const char *kind, size_t length);

/* Returns the number of the memory in which HOOK's blocks on DEVICE lie. Returns 0 if they take no
 * memory, or if LEDGER_MEMORIES_MAX other memories have numbers. */
COLD uint32_t memories_number(struct recorder *recorder, const struct hook *hook, int device);

/* A thread begins to use STATE. */
COLD void memories_join(struct thread_states *states, struct thread_state *state);

/* Locking: the caller holds peak_lock. Notes the live bytes of memory NUMBER at NOW_NS if they are
 * a new peak. Then stores in each thread's state how far it may go before this must be repeated. */
void memories_update(struct thread_states *states, uint32_t number, uint64_t now_ns);

#endif
