/* SPDX-License-Identifier: MIT
 *
 * An intercepted call. It lies on the wrapper's stack, and the steps of the call hand each other
 * here what they found out. Thread-local state (struct thread) has only what outlives a call, and
 * what passes the driver's frames: what an outer wrapper must know of a call that the driver makes
 * inside it.
 */
#pragma once

#include "interpose/block/block_types.h"
#include "interpose/recorder/recorder.h"

struct call {
	struct hook *hook;
	const struct caller *caller; /* see stacks.h; NULL = unknown */
	enum space space; /* of the address or handle that the call is about */
	/* If not 0, the block is watched: the driver will report its end, and record_destroyed()
	 * gets this number then. */
	uint64_t watched;
	/* The recorder, if a step has stayed inside it for the next step; else NULL. Between them
	 * only a signal handler can make a GPU call, and it finds the thread busy. */
	struct recorder *inside;
	uint64_t now_ns; /* when call_begin() or call_begin_fine() entered the recorder */
	uint32_t name;   /* ref of the hook's name, set by the same functions */
	bool refused;    /* the guard returns an error in place of the driver: see GUARD_CHECK */
	/* If the pool may serve the call: the driver's own function, and the block that the pool
	 * allocated. */
	void *driver;
	struct block_hint *hint;
};

/* Enters the recorder for the first step of CALL that records, see recorder_enter(). Stores the
 * name, and what READ_TIME returns. A step that stays inside sets CALL->inside. */
static HOT struct recorder *call_begin_by(struct call *call,
					  uint64_t (*read_time)(const struct recorder *))
{
	struct recorder *recorder = recorder_enter();

	if (__builtin_expect(recorder != NULL, 1)) {
		call->name = recorder_name_ref(recorder, call->hook);
		call->now_ns = read_time(recorder);
	}
	return recorder;
}

static HOT struct recorder *call_begin(struct call *call)
{
	return call_begin_by(call, recorder_time);
}

/* For the references of a handle. Their history must be in order, so the coarse clock does not
 * suffice. A deferred free also needs its exact time, see deferred_end(). */
static HOT struct recorder *call_begin_fine(struct call *call)
{
	return call_begin_by(call, recorder_fine_time);
}

/* Leaves the recorder, whether or not a step has stayed inside. */
static HOT void call_leave(struct call *call)
{
	call->inside = NULL;
	recorder_leave();
}
