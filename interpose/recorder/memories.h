/* SPDX-License-Identifier: MIT
 *
 * The memories that have a peak of their own: each device, and host memory. Owns their records in
 * the ledger, decides when a new peak is noted, and stores the peak's number in each per-thread
 * state. thread_state.h keeps what call sites had live at that peak.
 */
#pragma once

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
	_Atomic uint32_t peak; /* number of the last peak that was noted */
};

/* What all threads have in suballocations of one memory. The lock of the device's suballocations
 * guards `live`. Not divided among threads, as blocks are: most programs allocate tensors in one
 * thread and free them in another, so the parts would move apart, and the ceilings would have to be
 * set again several times in each training step. */
struct memory_suballocations {
	_Atomic int64_t live, ceiling;
	_Atomic uint32_t peak; /* as in struct memory_part */
} __attribute__((aligned(64)));

struct memory_peak {
	enum ledger_memory class;
	enum api api; /* whose device numbers `device` is one of */
	int device;
	bool has_suballocations;
	uint32_t number; /* of the last peak that was noted */
	struct ledger_peak_at peak;
	struct ledger_peak *record;
};

/* Memories have numbers from 1. Number 0 is for blocks that are in none of them. */
#define MEMORY_NUMBERS (LEDGER_MEMORIES_MAX + 1)

/* Returns the class of memory of a block that a call of API makes. KIND is the name of its kind and
 * has LENGTH characters. */
enum ledger_memory memory_class(enum api api, const char *kind, size_t length);

/* Returns the number of the memory in which HOOK's blocks on DEVICE lie. Returns 0 if they take no
 * memory, or if LEDGER_MEMORIES_MAX other memories have numbers. */
COLD uint32_t memories_number(struct recorder *recorder, const struct hook *hook, int device);

/* Call this when a thread begins to use STATE: stores the numbers of the last peaks in STATE. */
COLD void memories_join(struct thread_states *states, struct thread_state *state);

/* Locking: the caller holds peak_lock. Notes the live bytes of memory NUMBER at NOW_NS if they are
 * a new peak. Then stores in each per-thread state the ceilings above which this must be called
 * again. */
void memories_update(struct thread_states *states, uint32_t number, uint64_t now_ns);
