/* SPDX-License-Identifier: MIT
 *
 * Looks a stack up in the thread's own table, then in the table that all threads share. Writes it
 * into the ledger if neither has it.
 *
 * Locking: a shard's lock is held only for look-ups, never while this writes to the ledger or
 * calls the loader.
 */
#include "interpose/stack/intern.h"

#include <string.h>

#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/stack/capture.h"
#include "interpose/stack/frames.h"
#include "interpose/stack/modules.h"
#include "interpose/stack/python.h"

/* Returns the hash of a stack of N frames in EPOCH. HASH is that of the frames. */
static HOT uint64_t hash_of_stack(uint64_t hash, unsigned int n, uint32_t epoch)
{
	hash = (hash ^ ((uint64_t)epoch << 32 | n)) * 0x9e3779b97f4a7c15u;
	hash ^= hash >> 32;
	return hash ? hash : 1;
}

/* Returns true if the stack at REF has the FRAMES native frames at PC. */
static bool same(struct recorder *recorder, uint32_t ref, const uint64_t *pc, unsigned int frames)
{
	const struct ledger_stack *stack = ledger_at(&recorder->writer, ref);

	return stack->frames == frames && memcmp(stack->pc, pc, frames * sizeof(*pc)) == 0;
}

static bool same_python(struct recorder *recorder, uint32_t ref, uint32_t python)
{
	return ((const struct ledger_stack *)ledger_at(&recorder->writer, ref))->python == python;
}

/* Sets the bit in RET of each native frame that is a call of Python's evaluation loop. Finds these
 * frames by a walk of the stack, which costs about ten microseconds. Does not use symbol names,
 * because interpreters are often stripped. */
static bool mark_loops(const struct capture *capture, unsigned int depth, uint64_t *ret)
{
	uintptr_t calls[LEDGER_FRAMES_MAX];
	uint64_t places[LEDGER_FRAMES_MAX + 1];
	unsigned int count = python_calls(depth, calls), frame = 0, marked = 0;

	memset(ret, 0, LEDGER_STACK_LOOP_WORDS(capture->frames) * sizeof(*ret));
	if (count == 0 || !capture_find_places(capture, places))
		return false;
	for (unsigned int i = 0; i < count; i++) {
		while (frame < capture->frames && calls[i] >= places[frame + 1])
			frame++;
		if (frame == capture->frames || calls[i] < places[frame])
			break; /* further out than the capture, or on another stack */
		ret[frame / 64] |= 1ull << frame % 64;
		marked++;
	}
	return marked > 0;
}

/* Not inlined: its array is large, some threads have small stacks, and most never need it. */
static __attribute__((noinline)) uint32_t write_marked(struct recorder *recorder,
							struct ledger_stack *stack,
							const struct capture *capture)
{
	uint64_t words[LEDGER_FRAMES_MAX + LEDGER_STACK_LOOP_WORDS(LEDGER_FRAMES_MAX)];

	memcpy(words, capture->first, capture->frames * sizeof(*words));
	if (mark_loops(capture, recorder->stack_depth, words + capture->frames))
		stack->flags |= LEDGER_STACK_LOOPS;
	return ledger_add_stack(&recorder->writer, stack, words);
}

static uint32_t write_stack(struct recorder *recorder, uint64_t hash, const struct capture *capture,
			    uint32_t python)
{
	struct ledger_stack stack = {
		.hash = (uint32_t)hash,
		.frames = (uint16_t)capture->frames,
		.flags = capture->cut ? LEDGER_STACK_CUT : 0,
		.epoch = recorder->modules->epoch,
		.python = python,
	};

	if (python)
		return write_marked(recorder, &stack, capture);
	return ledger_add_stack(&recorder->writer, &stack, (const uint64_t *)capture->first);
}

/* Returns the ref of the stack from the table that threads share. Adds the stack if it is missing.
 * PYTHON is the ref of its Python frames; if WAITING is true, they are frames of the thread that
 * waits for the calling thread. Two different stacks with the same 64-bit hash are not expected. If
 * it happens, each thread that captures the later stack writes it again. */
static uint32_t intern_shared(struct recorder *recorder, uint64_t native,
			      const struct capture *capture, uint32_t python, bool waiting)
{
	uint64_t hash = native ^ python * 0x9e3779b97f4a7c15u;
	unsigned int number = (unsigned int)(hash >> 58) % STACK_SHARDS;
	struct ref_table *refs = &recorder->stacks->shard[number].refs;
	struct lock *lock = &recorder->stacks->shard[number].lock;
	uint32_t known, ref;

	lock_take(lock);
	known = ref_table_find(refs, hash);
	lock_give(lock);
	if (known && same(recorder, known, (const uint64_t *)capture->first, capture->frames) &&
	    same_python(recorder, known, python))
		return known;
	/* Outside the lock, because the module table may have to call the loader. Two threads that
	 * arrive here at the same time both write the stack; readers merge the copies. */
	modules_cover(recorder, capture);
	/* One of the modules that were just recorded may be a Python interpreter. */
	if (__builtin_expect(python_is_due(), 0)) {
		python_look(recorder);
		if (!waiting)
			python = python_intern(recorder, recorder->stack_depth, 0);
		return intern_shared(recorder, native, capture, python, waiting);
	}
	ref = write_stack(recorder, hash, capture, python);
	if (!ref || known)
		return ref;
	lock_take(lock);
	ref_table_set(&recorder->arena, refs, hash, ref);
	lock_give(lock);
	return ref;
}

uint32_t stack_recent(struct recorder *recorder, const struct thread_state *state,
		      const uint64_t *pc, unsigned int frames, uint64_t hash, uint64_t key)
{
	unsigned int slot;
	uint32_t ref;

	hash = hash_of_stack(hash, frames, recorder->modules->epoch) ^ key;
	slot = (unsigned int)hash % THREAD_STATE_STACKS;
	ref = state->stacks[slot].ref;
	return ref && state->stacks[slot].hash == hash && same(recorder, ref, pc, frames) ? ref : 0;
}

/* The per-thread table finds a stack by KEY, so the names of Python frames are read only for a
 * stack that is not in it. */
uint32_t stack_intern(struct recorder *recorder, struct thread_state *state,
		      const struct capture *capture, uint64_t key, uint32_t waiting)
{
	const uint64_t *pc = (const uint64_t *)capture->first;
	uint64_t frames = 0, native, hash;
	unsigned int slot;
	uint32_t ref;

	for (unsigned int i = capture->frames; i-- > 0;)
		frames = frames_hash_on(frames, pc[i]);
	native = hash_of_stack(frames, capture->frames, recorder->modules->epoch);
	hash = native ^ key;
	slot = (unsigned int)hash % THREAD_STATE_STACKS;
	ref = stack_recent(recorder, state, pc, capture->frames, frames, key);
	if (ref)
		return ref;
	ref = waiting || !key
		      ? intern_shared(recorder, native, capture, waiting, waiting != 0)
		      : intern_shared(recorder, native, capture,
				      python_intern(recorder, recorder->stack_depth, 0), false);
	if (ref) {
		state->stacks[slot].hash = hash;
		state->stacks[slot].ref = ref;
	} else {
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_STACKS, 1);
	}
	return ref;
}
