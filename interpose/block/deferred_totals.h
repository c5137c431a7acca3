/* SPDX-License-Identifier: MIT
 *
 * Totals of deferred frees: blocks whose last reference is gone while the driver still has their
 * memory. Such a block waits. Records the peak of their bytes, their bytes over time, and the
 * longest wait. Every function may be called by any thread that has entered the recorder.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "ledger/writer.h"

struct past;

/* In nanoseconds. If the block ended inside the release, a shorter time is the duration of the call
 * itself, and is not reported as a wait. */
#define DEFERRED_WAIT_NS 1000000u

struct deferred_totals {
	struct lock lock;
	struct ledger_timeline timeline;
};

/* Adds BYTES, which may be negative, to this thread's part of the total. */
static inline void deferred_add(int64_t bytes)
{
	atomic_fetch_add_explicit(&thread_self.state->deferred_bytes, bytes, memory_order_relaxed);
}

/* The driver has freed the block that ENDING describes, at NOW_NS. Subtracts its bytes from the
 * total. NOW_NS and ENDING's freed_ns are of recorder_fine_time(): the coarse clock's ticks are too
 * long for waits. WAS_DEFERRED: the release had returned before NOW_NS. */
void deferred_end(struct recorder *recorder, const struct past *ending, uint64_t now_ns,
		  bool was_deferred);

/* Computes the total over all threads; updates its peak and its timeline. */
void deferred_sample(struct recorder *recorder);

/* At process exit: returns when no deferred free is left, after 20 ms at the latest. NVIDIA's
 * OpenCL driver may report from its own thread that it freed a block, after the release returned.
 * Blocks that the driver has not freed then stay recorded as deferred frees. */
void deferred_wait(struct recorder *recorder);

/* Before a report: adds the present total to the timeline. */
void deferred_settle(struct recorder *recorder);
