/* SPDX-License-Identifier: MIT
 *
 * Marks the thread as inside a driver's call, and stores which block the outermost such call frees.
 * A driver may call its own exported functions, so a wrapper may run inside the driver's call of
 * another wrapper. If both record the same memory, the outer record replaces the inner one
 * (blocks.c). A call that never returns is handled in blocks.c, too. The driver may report the end
 * of the block inside the call.
 */
#pragma once

#include "interpose/block/block_types.h"
#include "interpose/base/hot.h"
#include "interpose/recorder/recorder.h"

/* The return address is this many words after the address of a frame. */
#define CALL_RETURN_WORD 1

/* Called right before and right after the driver's call. FRAME is the address of the wrapper's
 * frame. FREEING describes the block that the call frees, or is NULL. */
static HOT void record_call_from(const uintptr_t *frame, const struct freeing *freeing)
{
	if (__builtin_expect(thread_self.call_frame != 0, 0))
		return;
	thread_self.call_frame = (uintptr_t)frame;
	thread_self.call_return = frame[CALL_RETURN_WORD];
	thread_self.call_free.block = NULL;
	if (freeing)
		thread_self.call_free = (struct call_free){
			freeing->block, freeing->key, freeing->watched, freeing->span,
			freeing->hint, false,
		};
}

/* Only the outermost call has set a mark. So an inner call leaves no mark behind if a callback's
 * longjmp leaves it. */
static HOT void record_call_done_from(const uintptr_t *frame)
{
	if (__builtin_expect((uintptr_t)frame == thread_self.call_frame, 1))
		thread_self.call_frame = 0;
}

/* The same after a call that may end a watched block: stores in FREEING whether the block's end was
 * reported inside the call. */
static inline void record_call_freed_from(const uintptr_t *frame, struct freeing *freeing)
{
	freeing->gone = (uintptr_t)frame == thread_self.call_frame ? thread_self.call_free.gone
								    : GONE_NOT;
	record_call_done_from(frame);
}

/* See record_destroyed(). */
void record_destroyed_later(enum space space, uint64_t handle, uint64_t watched);

/* The driver or, if HOW is GONE_WITH_POOL, the pool reports, on any thread, that the memory of the
 * block made with WATCHED is gone. Mostly the driver does so inside the call that frees the block,
 * on the thread of that call. */
static inline void record_destroyed_as(enum space space, uint64_t handle, uint64_t watched,
				       enum gone how)
{
	/* uses thread_self by name, not by a pointer: see recorder_enter() */
	if (thread_self.call_frame && thread_self.call_free.block &&
	    thread_self.call_free.watched == watched)
		thread_self.call_free.gone = how;
	else
		record_destroyed_later(space, handle, watched);
}

static inline void record_destroyed(enum space space, uint64_t handle, uint64_t watched)
{
	record_destroyed_as(space, handle, watched, GONE_WITH_DRIVER);
}

#define RECORD_FRAME ((const uintptr_t *)__builtin_frame_address(0))
#define record_call() record_call_from(RECORD_FRAME, NULL)
#define record_call_freeing(freeing) record_call_from(RECORD_FRAME, (freeing))
#define record_call_done() record_call_done_from(RECORD_FRAME)
#define record_call_freed(freeing) record_call_freed_from(RECORD_FRAME, (freeing))
