/* SPDX-License-Identifier: MIT
 *
 * Totals of deferred frees: blocks whose last reference is gone while the driver still has their
 * memory. Their peak, their sum over time, and the longest wait. Every function may be called by
 * any thread that has entered the recorder.
 */
#ifndef GPULEAK_DEFERRED_TOTALS_H
#define GPULEAK_DEFERRED_TOTALS_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "ledger/writer.h"

struct past;

/* Shorter waits are the duration of the call itself. They are not reported. */
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

/* The memory of the block that ENDING describes, whose bytes are in the total, is gone at NOW_NS.
 * Both times are of recorder_fine_time(): the coarse clock's ticks are too long for waits.
 * WAS_DEFERRED: the release had returned before. */
void deferred_end(struct recorder *recorder, const struct past *ending, uint64_t now_ns,
		  bool was_deferred);

/* Computes the total over all threads; updates its peak and its timeline. */
void deferred_sample(struct recorder *recorder);

/* At process exit: waits until no block is waiting to be freed, at most 20 ms in total. NVIDIA's
 * OpenCL driver may report from its own thread that it freed a block, after the release returned.
 * Blocks that still wait after 20 ms stay recorded as deferred frees. */
void deferred_wait(struct recorder *recorder);

/* Before a report: adds the present total to the timeline. */
void deferred_settle(struct recorder *recorder);

#endif
