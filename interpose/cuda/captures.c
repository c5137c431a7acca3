/* SPDX-License-Identifier: MIT
 *
 * The streams of this process that are being captured, and a gate between beginning captures and
 * driver calls that would invalidate a capture. The state lies in pages that a fork wipes: a forked
 * child starts with no capture and no thread inside the gate. Must not call the driver.
 *
 * Ordering: captures_enter() increments its thread's count and then reads `active`.
 * captures_beginning() increments `active` and then reads the counts. All four accesses are
 * sequentially consistent, so they have one total order. If the entering thread reads 0, its
 * increment precedes the increment of `active`. So the beginning capture sees the count and waits
 * until the thread decrements it. Otherwise the entering thread sees `active` and does not enter.
 * The argument holds for each counter alone, so it does not matter which counter a thread
 * uses. captures_leave() is a release that reading the counts acquires: what a thread did inside
 * happens before the capture. `active` falls only after the driver reported that a capture did not
 * begin or is over. That is a release too, which the next captures_enter() acquires.
 */
#include "interpose/cuda/captures.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

#include "interpose/base/child_memory.h"
#include "interpose/block/queries.h"
#include "ledger/clock.h"
#include "ledger/lock.h"
#include "ledger/nocancel.h"
#include "interpose/recorder/recorder.h"

#define STREAMS_MAX 1024u
#define READER_COUNTS 32u /* a power of two */
#define PER_THREAD_STREAM 2 /* CU_STREAM_PER_THREAD */

struct captured {
	uint64_t stream;
	uint64_t thread; /* the thread whose per-thread default stream it is; 0: a shared stream */
	uint64_t context;
	uint64_t capture;
	bool into_graph;
};

struct reader_count {
	_Alignas(64) _Atomic uint32_t inside;
};

struct captures {
	_Atomic uint32_t active; /* captured streams, and calls about to begin a capture */
	_Atomic uint64_t last;   /* number of the latest capture, from 1 */
	struct lock lock;        /* protects the list */
	uint32_t count;
	struct captured list[STREAMS_MAX];
	struct reader_count readers[READER_COUNTS];
};

/* Long enough for a thread that was preempted inside the gate. Also long enough for a thread inside
 * whose driver call waits for a driver lock, which another thread's free holds until a kernel
 * ends. */
int64_t captures_patience_ns = 1000000000;

static struct captures *_Atomic pages;
static struct captures fallback; /* used if child_memory_map() fails */

static struct captures *captures_allocate(void)
{
	struct captures *none = NULL, *made;
	KEEP_ERRNO;

	made = child_memory_map(sizeof(*made));
	if (!made)
		made = &fallback;
	if (!atomic_compare_exchange_strong(&pages, &none, made)) {
		if (made != &fallback)
			munmap(made, sizeof(*made));
		made = none;
	} else if (made == &fallback) {
		child_memory_fall_back(made, sizeof(*made));
	}
	return made;
}

static struct captures *captures(void)
{
	struct captures *made = atomic_load_explicit(&pages, memory_order_acquire);

	return __builtin_expect(made != NULL, 1) ? made : captures_allocate();
}

/* ---- threads inside the gate ---- */

static _Atomic uint32_t *own_reader_count(struct captures *set)
{
	uint64_t self = (uint64_t)(uintptr_t)&thread_self;
	uint64_t mixed = self * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	return &set->readers[mixed & (READER_COUNTS - 1)].inside;
}

bool captures_enter(void)
{
	struct captures *set = captures();
	_Atomic uint32_t *inside;

	if (atomic_load_explicit(&set->active, memory_order_relaxed))
		return false;
	inside = own_reader_count(set);
	atomic_fetch_add(inside, 1);
	if (__builtin_expect(atomic_load(&set->active) == 0, 1))
		return true;
	atomic_fetch_sub(inside, 1);
	return false;
}

void captures_leave(void)
{
	atomic_fetch_sub_explicit(own_reader_count(captures()), 1, memory_order_release);
}

/* ---- captures ---- */

static bool anybody_inside(struct captures *set)
{
	for (unsigned int i = 0; i < READER_COUNTS; i++)
		if (atomic_load(&set->readers[i].inside))
			return true;
	return false;
}

/* The wait is bounded, since a thread may have been stopped permanently inside the gate. A failed
 * capture harms the application less than a hang. */
static void wait_until_left(struct captures *set)
{
	const struct timespec nap = { .tv_nsec = 20000 };
	KEEP_ERRNO;
	int64_t began = (int64_t)clock_ns(CLOCK_MONOTONIC);

	for (unsigned int tries = 0;
	     anybody_inside(set) &&
	     (int64_t)clock_ns(CLOCK_MONOTONIC) - began < captures_patience_ns; tries++)
		if (tries < 32)
			sched_yield();
		else
			nocancel_nanosleep(&nap);
}

void captures_beginning(void)
{
	struct captures *set = captures();

	atomic_fetch_add(&set->active, 1);
	if (anybody_inside(set))
		wait_until_left(set);
}

static struct captured captured_key(CUstream stream, bool per_thread)
{
	struct captured key = { .stream = (uint64_t)(uintptr_t)stream };

	if (key.stream == PER_THREAD_STREAM || (per_thread && !key.stream)) {
		key.stream = PER_THREAD_STREAM;
		key.thread = (uint64_t)(uintptr_t)&thread_self;
	}
	return key;
}

/* Locking: needs set->lock. */
static struct captured *captured_lookup(struct captures *set, const struct captured *key)
{
	for (uint32_t i = 0; i < set->count; i++)
		if (set->list[i].stream == key->stream && set->list[i].thread == key->thread)
			return &set->list[i];
	return NULL;
}

/* If the stream is listed already, one of two things happened. The driver called its own exported
 * name, so that this capture is reported twice. Or an older capture of the stream is over and the
 * thread that ended it has not called captures_ended() yet. A capture that does not fit in the list
 * is counted in `active` until the process ends. So captures_enter() always returns false from then
 * on, which invalidates no capture. */
void captures_begun(CUstream stream, bool per_thread, uint64_t context, bool success)
{
	struct captures *set = captures();
	struct captured key = captured_key(stream, per_thread), *at;
	bool counted = success;

	if (success) {
		HOLD(&set->lock);
		at = captured_lookup(set, &key);
		counted = !at;
		if (!at && set->count < STREAMS_MAX)
			at = &set->list[set->count++];
		if (at) {
			query_capturing(true);
			key.context = context;
			key.capture = atomic_fetch_add(&set->last, 1) + 1;
			*at = key;
		}
	}
	if (!counted)
		atomic_fetch_sub(&set->active, 1);
}

uint64_t captures_of(CUstream stream, bool per_thread)
{
	struct captures *set = captures();
	struct captured key, *at;

	if (!atomic_load_explicit(&set->active, memory_order_relaxed))
		return 0;
	key = captured_key(stream, per_thread);
	HOLD(&set->lock);
	at = captured_lookup(set, &key);
	return at ? at->capture : 0;
}

void captures_set_into_graph(CUstream stream, bool per_thread)
{
	struct captures *set = captures();
	struct captured key = captured_key(stream, per_thread), *at;

	HOLD(&set->lock);
	at = captured_lookup(set, &key);
	if (at)
		at->into_graph = true;
}

bool captures_makes_graph(uint64_t capture)
{
	struct captures *set = captures();

	if (!capture)
		return false;
	HOLD(&set->lock);
	for (uint32_t i = set->count; i-- > 0;)
		if (set->list[i].capture == capture)
			return !set->list[i].into_graph;
	return false;
}

/* Locking: needs set->lock. Moves the last entry to index I. */
static void remove_at(struct captures *set, uint32_t i)
{
	set->list[i] = set->list[--set->count];
	query_capturing(set->count != 0);
	atomic_fetch_sub(&set->active, 1);
}

void captures_ended(uint64_t capture)
{
	struct captures *set = captures();

	if (!capture)
		return;
	HOLD(&set->lock);
	for (uint32_t i = set->count; i-- > 0;)
		if (set->list[i].capture == capture)
			remove_at(set, i);
}

uint64_t captures_last(void)
{
	return atomic_load(&captures()->last);
}

void captures_context_gone(uint64_t context, uint64_t until)
{
	struct captures *set = captures();

	if (!context || !atomic_load_explicit(&set->active, memory_order_relaxed))
		return;
	HOLD(&set->lock);
	for (uint32_t i = set->count; i-- > 0;)
		if (set->list[i].context == context && set->list[i].capture <= until)
			remove_at(set, i);
}
