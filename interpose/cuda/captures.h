/* SPDX-License-Identifier: MIT
 *
 * Owns the set of streams that are being captured. During a capture, calls that wait for a context
 * or record an event for all of its work fail and invalidate the capture. They do so in every
 * capture mode and from any thread (measured on an H200). A thread calls captures_enter() before it
 * makes such a call.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "interpose/cuda/cuda_types.h"

/* Returns true if no stream is captured; then no capture begins before the thread calls
 * captures_leave(). A capture that would begin waits for that, at most captures_patience_ns.
 * Between the two calls, the thread must not wait for the device. Returns false, with nothing
 * entered, if a stream is captured. Takes no lock that threads share. */
bool captures_enter(void);
void captures_leave(void);

/* Called before and after the driver's call that begins a capture on STREAM. PER_THREAD: the call's
 * name ends in _ptsz. CONTEXT is the context that STREAM belongs to. */
void captures_beginning(void);
void captures_begun(CUstream stream, bool per_thread, uint64_t context, bool success);

/* Returns the number of the capture on STREAM, or 0. Called before the driver's call that may end
 * the capture: afterwards the driver may have reused the stream's handle. */
uint64_t captures_of(CUstream stream, bool per_thread);
/* The capture on STREAM extends a graph that the application has already. */
void captures_set_into_graph(CUstream stream, bool per_thread);
/* Returns true if CAPTURE, which is not over, makes a new graph. */
bool captures_makes_graph(uint64_t capture);
/* Called after the driver's call (see captures_of()), if CAPTURE is over or its stream is
 * destroyed. */
void captures_ended(uint64_t capture);

/* Returns the number of the latest capture. */
uint64_t captures_last(void);
/* Ends the captures of CONTEXT, which was destroyed with all of its streams. UNTIL is
 * captures_last() from before the driver's call: later captures belong to a new context with the
 * same handle. */
void captures_context_gone(uint64_t context, uint64_t until);

/* How long a beginning capture waits for threads between captures_enter() and captures_leave().
 * Tests set a shorter time. */
extern int64_t captures_patience_ns;
