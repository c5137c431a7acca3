/* SPDX-License-Identifier: MIT
 *
 * Is any stream of the process being captured? Owns the set of captured streams. While one is,
 * calls that wait for a context, or record all of it, fail and spoil the capture (in every mode,
 * from any thread: measured on an H200), so who wants to make one enters here.
 */
#ifndef GPULEAK_CAPTURES_H
#define GPULEAK_CAPTURES_H

#include <stdbool.h>

#include "types.h"

/* No stream is captured, and none will begin to be until captures_leave(): a capture that
 * begins meanwhile waits for that, at most some milliseconds. Between the two no call may
 * wait for the device. False: one is, and nothing was entered. */
bool captures_enter(void);
void captures_leave(void);

/* Around the driver's call that begins a capture on STREAM (PER_THREAD: a _ptsz call), and
 * after one that ended it or destroyed the stream. */
void captures_beginning(void);
void captures_begun(CUstream stream, bool per_thread, bool success);
void captures_ended(CUstream stream, bool per_thread);
/* Every stream of a context is gone. */
void captures_context_gone(void *context);

#endif
