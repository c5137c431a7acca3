/* SPDX-License-Identifier: MIT
 *
 * Looks the calling thread's stack up in the thread's cache. If it is not there, captures, interns
 * and caches it; this work runs on a stack of gpuleak's own.
 *
 * Locking: the caller holds no lock.
 */
#include "interpose/stack/stacks.h"

#include "interpose/base/config.h"
#include "interpose/base/fork_guard.h"
#include "interpose/base/own_stack.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/stack/capture.h"
#include "interpose/stack/frames.h"
#include "interpose/stack/intern.h"
#include "interpose/stack/interpreters.h"
#include "interpose/stack/modules.h"
#include "interpose/stack/python.h"
#include "interpose/stack/stack_cache.h"
#include "interpose/stack/waiting.h"
#include "ledger/shared.h"

/* the ref of an interpreter's frames, or of a waiting thread's, times this is a key */
#define FRAMES_KEY 0x9e3779b97f4a7c15u

struct stack_request {
	struct recorder *recorder;
	struct thread_state *state;
	const struct caller *caller;
	/* the key for CALLER; its `python` is made of `frames`, if that is not 0 */
	struct stack_cache_key cache_key;
	/* ref of the thread's frames in an interpreter, or else of the frames of the only thread
	 * that waits for workers, or 0 */
	uint32_t frames;
	bool is_own; /* they are the thread's */
	uint32_t ref;
};

static void look_at_modules(void *recorder)
{
	modules_refresh(recorder);
}

static void look_for_python(void *recorder)
{
	python_look(recorder);
}

/* Returns the ref of the stack above CALLER if the thread had the same frames recently at other
 * addresses, or 0. Uses neither libunwind nor another stack, so signals need not wait. */
static uint32_t find_moved(struct recorder *recorder, struct thread_state *state,
			   const struct caller *caller, const struct stack_cache_key *key)
{
	unsigned int wanted = recorder->stack_depth, frames;
	const uint64_t *pcs;
	uint64_t hash;
	uint32_t ref;

	if (atomic_load(&interpreters_there))
		return 0;
	frames = frames_walk(caller, &state->stack_cache->walks, wanted + 1, false, &pcs, &hash);
	if (frames == 0)
		return 0;
	thread_state_lock(state);
	ref = stack_recent(recorder, state, pcs, frames < wanted ? frames : wanted, hash,
			   key->python);
	if (ref && !stack_cache_note(state, key, ref))
		ref = 0;
	thread_state_unlock(state);
	return ref;
}

static void unwind_here(void *data)
{
	struct stack_request *request = data;
	struct recorder *recorder = request->recorder;
	const bool taken_over = recorder->modules->taken_over;
	const bool may_cache = request->caller && !request->state->shared;
	uint64_t key = request->cache_key.python;
	uint32_t frames = request->frames;
	struct capture capture;

	if (fork_guard_is_locked())
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNWINDER_LOCKED, 1);
	if (!may_cache || taken_over ||
	    !capture_by_rules(request->caller, &request->state->stack_cache->walks,
			      recorder->stack_depth, &capture))
		capture_frames(recorder->stack_depth, taken_over, &capture);
	if (frames && !request->is_own && !waiting_is_worker(&capture))
		key = frames = 0;
	if (capture.frames == 0 && !key)
		return;
	request->ref = stack_intern(recorder, request->state, &capture, key, frames);
	if (request->ref && may_cache && capture.frames)
		stack_cache_add(recorder, request->state, &request->cache_key, request->caller,
				&capture, request->ref);
}

/* The handlers of signals that waited for the end of the walk run now. Their GPU calls are
 * recorded, unless this call is one that a pool may serve: its steps must not be interrupted. */
static void let_signals_arrive(const struct aside *aside)
{
	struct recorder_paused paused;

	if (config.pool != OPTION_POOL_OFF) {
		aside_end(aside);
		return;
	}
	recorder_pause(&paused);
	aside_end(aside);
	recorder_resume(&paused);
}

static uint32_t unwind_once(struct stack_request *request)
{
	struct aside aside;

	if (!request->cache_key.python && atomic_load(&interpreters_there)) {
		request->frames = interpreters_frames(request->recorder);
		request->is_own = request->frames != 0;
		request->cache_key.python = request->frames * FRAMES_KEY;
	}
	thread_state_lock(request->state);
	aside_begin(&aside, unwind_here, request);
	thread_state_unlock(request->state);
	let_signals_arrive(&aside);
	return request->ref;
}

static void look_for_interpreters(void *data)
{
	(void)data;
	interpreters_look();
}

static COLD uint32_t unwind(struct recorder *recorder, struct thread_state *state,
			    const struct caller *caller, struct stack_cache_key key,
			    uint32_t waiting, bool may_load)
{
	struct stack_request request = { recorder, state, caller, key, waiting, false, 0 };

	if (!stack_may_be_walked()) {
		ledger_trouble(recorder->header, LEDGER_TROUBLE_NESTED_STACKS, 1);
		return 0;
	}
	unwind_once(&request);
	/* The unwinding may have recorded new modules, and one of them may be an interpreter. */
	if (!may_load || !atomic_load(&interpreters_due) || fork_guard_is_locked())
		return request.ref;
	aside(look_for_interpreters, NULL);
	return atomic_load(&interpreters_there) && !request.is_own ? unwind_once(&request)
								: request.ref;
}

/* Finds a stack that is not in the cache. Gets a copy of the key, so that the compiler can keep the
 * key in registers where the cache is searched: 2 to 4 % of a pair. */
static __attribute__((noinline)) uint32_t find_uncached(struct recorder *recorder,
							struct thread_state *state,
							const struct caller *caller,
							struct stack_cache_key key,
							uint32_t waiting, bool may_load)
{
	uint32_t ref = 0;

	if (caller && !state->shared && !waiting)
		ref = find_moved(recorder, state, caller, &key);
	return ref ? ref : unwind(recorder, state, caller, key, waiting, may_load);
}

HOT_CALL uint32_t stack_find(struct recorder *recorder, const struct caller *caller,
			     bool may_load)
{
	struct thread_state *state = thread_self.state;
	struct stack_cache_key key = { 0 };
	uint32_t ref = 0, waiting = 0;

	if (may_load && __builtin_expect(shared_load(recorder->modules->stale), 0))
		aside(look_at_modules, recorder);
	if (may_load && __builtin_expect(python_is_due(), 0))
		aside(look_for_python, recorder);
	key.python = python_key(recorder->stack_depth);
	if (!key.python) {
		waiting = waiting_frames(recorder);
		key.python = waiting * FRAMES_KEY;
	}
	if (caller) {
		key.pc = caller->pc;
		key.top = caller_top(caller);
	}
	if (caller && !state->shared)
		ref = stack_cache_find(recorder, state->stack_cache, &key, caller->frame_pointer);
	if (__builtin_expect(ref != 0, 1))
		return ref;
	return find_uncached(recorder, state, caller, key, waiting, may_load);
}
