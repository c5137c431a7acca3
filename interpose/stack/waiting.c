/* SPDX-License-Identifier: MIT
 *
 * Counts the threads that wait for workers, and recognizes workers by a function on their stacks.
 * The count is one word, so that a worker reads it without a lock.
 */
#include "interpose/stack/waiting.h"

#include <link.h>

#include "interpose/base/hash.h"
#include "interpose/base/own_stack.h"
#include "interpose/dispatch/find_module.h"
#include "interpose/recorder/named_ranges.h"
#include "interpose/stack/capture.h"
#include "interpose/stack/python.h"

/* ---- workers ---- */

#define FUNCTIONS_MAX 4 /* copies of a library in one process */

static struct {
	_Atomic uintptr_t start; /* 0: unused */
	_Atomic uintptr_t bytes;
	_Atomic(const struct link_map *) module;
} functions[FUNCTIONS_MAX];

void waiting_add_workers(void *start, size_t bytes)
{
	for (unsigned int i = 0; start && i < FUNCTIONS_MAX; i++) {
		uintptr_t unused = 0;

		if (atomic_load(&functions[i].start) == (uintptr_t)start)
			return;
		if (!atomic_compare_exchange_strong(&functions[i].start, &unused, (uintptr_t)start))
			continue;
		atomic_store(&functions[i].module, module_of(start));
		atomic_store(&functions[i].bytes, bytes);
		return;
	}
}

void waiting_forget_unloaded(void)
{
	for (unsigned int i = 0; i < FUNCTIONS_MAX; i++) {
		uintptr_t start = atomic_load(&functions[i].start);

		if (!start || !atomic_load(&functions[i].bytes) ||
		    module_of((void *)start) == atomic_load(&functions[i].module))
			continue;
		atomic_store(&functions[i].bytes, 0);
		atomic_store(&functions[i].start, 0);
	}
}

bool waiting_is_worker(const struct capture *capture)
{
	for (unsigned int i = 0; i < FUNCTIONS_MAX; i++) {
		uintptr_t start = atomic_load_explicit(&functions[i].start, memory_order_relaxed);
		uintptr_t bytes = atomic_load_explicit(&functions[i].bytes, memory_order_relaxed);

		/* A return address may be the first byte after the function. */
		for (unsigned int frame = 0; bytes && frame < capture->frames; frame++)
			if ((uintptr_t)capture->first[frame] - 1 - start < bytes)
				return true;
	}
	return false;
}

static void look_for_function(void *data)
{
	bool *ret = data;
	struct capture capture;

	capture_frames(LEDGER_FRAMES_MAX, true, &capture);
	*ret = waiting_is_worker(&capture);
}

/* ---- waiting ---- */

/* Adds NUMBER, WAITING_ONE or its negative, to the number of waiting threads. Adds or removes the
 * range and the ref of the frames of the calling thread. */
static void change(struct recorder *recorder, uint64_t number)
{
	uint64_t bits = WAITING_BITS(thread_self.waiting_range, thread_self.waiting_frames);
	uint64_t word = atomic_load_explicit(&recorder->waiting, memory_order_relaxed);

	while (!atomic_compare_exchange_weak_explicit(&recorder->waiting, &word,
						      (word + number) ^ bits,
						      memory_order_acq_rel, memory_order_relaxed))
		;
}

static void intern_frames(void *recorder)
{
	unsigned int depth = ((struct recorder *)recorder)->stack_depth;

	thread_self.waiting_frames = python_intern(recorder, depth, LEDGER_PYTHON_WAITING);
}

/* Sets waiting_frames. A loop waits at the same place again and again, so it rarely has to read the
 * line tables of its frames. */
static void find_frames(struct recorder *recorder)
{
	uint64_t key = python_key(recorder->stack_depth);

	key = key ? key ^ TABLE_MIX(recorder->generation) : 0; /* a fork begins a new ledger */
	if (key == thread_self.waiting_key)
		return;
	aside(intern_frames, recorder);
	thread_self.waiting_key = key;
}

/* Returns true if the calling thread is a worker: a worker's work may start other work. Searches
 * the stack only while another thread waits. */
static bool is_worker(struct recorder *recorder)
{
	bool ret = false;

	if (atomic_load_explicit(&recorder->waiting, memory_order_relaxed) / WAITING_ONE)
		aside(look_for_function, &ret);
	return ret;
}

void waiting_begin(void)
{
	struct recorder *recorder;

	if (thread_self.waiting_depth++)
		return;
	thread_self.waiting_generation = 0;
	recorder = recorder_now() ? recorder_enter() : NULL;
	if (!recorder)
		return;
	if (recorder->stack_depth && !is_worker(recorder)) {
		find_frames(recorder);
		thread_self.waiting_generation = recorder->generation;
		thread_self.waiting_range = range_now();
		change(recorder, WAITING_ONE);
	}
	recorder_leave();
}

void waiting_end(void)
{
	struct recorder *recorder = recorder_now();

	/* After a fork inside the call, the child has another recorder or none. */
	if (--thread_self.waiting_depth == 0 && recorder && thread_self.waiting_generation &&
	    thread_self.waiting_generation == recorder->generation)
		change(recorder, -WAITING_ONE);
}
