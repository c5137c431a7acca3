/* SPDX-License-Identifier: MIT
 *
 * Marks the thread as inside a driver's call, and what the outermost such call was about to free.
 * A wrapper that runs inside another one's call (a driver that calls its own exported names)
 * makes no block of its own. What happens to a call that never returns is in blocks.c.
 */
#ifndef GPULEAK_CALLS_H
#define GPULEAK_CALLS_H

#include "interpose/block/block_types.h"
#include "interpose/base/hot.h"
#include "interpose/recorder/recorder.h"

/* The word behind a frame's address is where the call returns to. */
#define CALL_RETURN_WORD 1

/* Called right before and right after the driver's call. FRAME is the wrapper's, FREEING what the
 * call frees, or NULL. */
static HOT void record_call_from(const uintptr_t *frame, const struct freeing *freeing)
{
	if (__builtin_expect(thread_self.call_frame != 0, 0))
		return;
	thread_self.call_frame = (uintptr_t)frame;
	thread_self.call_return = frame[CALL_RETURN_WORD];
	thread_self.call_block = NULL;
	if (freeing && !freeing->watched) {
		thread_self.call_key = freeing->key;
		thread_self.call_block = freeing->block;
	}
}

/* Calls inside the outermost one mark nothing, so that they may be left by a callback's longjmp. */
static HOT void record_call_done_from(const uintptr_t *frame)
{
	if (__builtin_expect((uintptr_t)frame == thread_self.call_frame, 1))
		thread_self.call_frame = 0;
}

#define RECORD_FRAME ((const uintptr_t *)__builtin_frame_address(0))
#define record_call() record_call_from(RECORD_FRAME, NULL)
#define record_call_freeing(freeing) record_call_from(RECORD_FRAME, (freeing))
#define record_call_done() record_call_done_from(RECORD_FRAME)

#endif
