/* SPDX-License-Identifier: MIT
 *
 * Is any stream of the process being captured? Owns the set of captured streams. While one is,
 * calls that wait for a context, or record all of it, fail and spoil the capture (in every mode,
 * from any thread: measured on an H200), so who wants to make one enters here.
 */
#ifndef GPULEAK_CAPTURES_H
#define GPULEAK_CAPTURES_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/cuda/cuda_types.h"

/* No stream is captured, and none will begin to be until captures_leave(): a capture that
 * begins meanwhile waits for that, at most a second. Between the two no call may
 * wait for the device; both are called by the same thread. False: one is, and nothing was
 * entered. Takes no lock that threads share. */
bool captures_enter(void);
void captures_leave(void);

/* Around the driver's call that begins a capture on STREAM (PER_THREAD: a _ptsz call). CONTEXT
 * is the one that the stream ends with. */
void captures_beginning(void);
void captures_begun(CUstream stream, bool per_thread, uint64_t context, bool success);

/* The capture under way on STREAM, 0 if there is none: asked before the driver's call that
 * may end it, since afterwards the stream's handle may be another's. */
uint64_t captures_of(CUstream stream, bool per_thread);
/* After that call: it is over, or its stream is gone. */
void captures_ended(uint64_t capture);

/* CONTEXT is gone with every stream of it: ends its captures up to UNTIL, which is
 * captures_last() from before the driver's call. */
uint64_t captures_last(void);
void captures_context_gone(uint64_t context, uint64_t until);

/* How long a capture that begins waits for those inside. Tests have their own. */
extern int64_t captures_patience_ns;

#endif
