/* SPDX-License-Identifier: MIT
 *
 * An intercepted call. It lies on the wrapper's stack, and the steps of the call hand each other
 * here what they found out. Thread-local state (struct thread) has only what outlives a call, and
 * what passes the driver's frames: what an outer wrapper must know of a call that the driver makes
 * inside it.
 */
#ifndef GPULEAK_CALL_H
#define GPULEAK_CALL_H

#include "interpose/block/block_types.h"
#include "interpose/recorder/recorder.h"

struct call {
	struct hook *hook;
	const struct caller *caller; /* see stacks.h; NULL = unknown */
	enum space space; /* of the address or handle that the call is about */
	/* If not 0, the block is watched: the driver will report its end, and record_destroyed()
	 * gets this number then. */
	uint64_t watched;
	/* The recorder, while the call is inside it; else NULL. A step may stay inside for the next
	 * step. Between them only a signal handler can make a GPU call, and it finds the thread
	 * busy. */
	struct recorder *inside;
	uint64_t now_ns; /* when call_begin() entered the recorder */
	uint32_t name;   /* ref of the hook's name, set by call_begin() */
	/* If the pool may serve the call: the driver's own function, and the block that the pool
	 * allocated. */
	void *driver;
	struct block_hint *hint;
};

/* Enters the recorder for CALL, which is not inside: see recorder_enter(). Every non-NULL result
 * needs a call_leave(). */
static HOT struct recorder *call_enter(struct call *call)
{
	return call->inside = recorder_enter();
}

/* Like call_enter(), for the first step that records: also stores the time and the name. */
static HOT struct recorder *call_begin(struct call *call)
{
	struct recorder *recorder = call_enter(call);

	if (__builtin_expect(recorder != NULL, 1)) {
		call->name = recorder_name_ref(recorder, call->hook);
		call->now_ns = recorder_time(recorder);
	}
	return recorder;
}

static HOT void call_leave(struct call *call)
{
	call->inside = NULL;
	recorder_leave();
}

#endif
