/* SPDX-License-Identifier: MIT
 *
 * The captured streams of this process, and the gate between captures that begin and calls
 * that would spoil them. Lives in pages that a fork wipes, as recorder.c's: a child finds no
 * capture and nobody inside. Must not ask the driver.
 *
 * Who enters counts himself in and then looks at `active`; who begins raises `active` and then
 * looks at the counts. All four are sequentially consistent, so there is one order of them: if
 * the one who enters saw 0, his counting came before the raising, hence before the look at the
 * counts, which sees him and waits until he has counted himself out. If it came later, he
 * sees `active` and goes away. That a thread counts in one stripe of many changes nothing:
 * the argument holds for each stripe alone. Counting out is a release that the look acquires:
 * what was done inside happened before the capture. `active` falls only after the driver said
 * that a capture did not begin or is over, and that is a release which the look of the
 * next one who enters acquires.
 */
#include "interpose/cuda/captures.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "ledger/clock.h"
#include "ledger/lock.h"
#include "ledger/nocancel.h"
#include "interpose/recorder/recorder.h"

#define STREAMS_MAX 1024u
#define READER_STRIPES 32u /* a power of two */
#define PER_THREAD_STREAM 2 /* CU_STREAM_PER_THREAD */

struct captured {
	uint64_t stream;
	uint64_t thread; /* whose per-thread default stream; 0: a stream of everybody's */
	uint64_t context;
	uint64_t capture;
};

struct stripe_of_readers {
	_Alignas(64) _Atomic uint32_t inside;
};

struct captures {
	_Atomic uint32_t active; /* captured streams, and calls that are about to begin one */
	_Atomic uint64_t last;   /* capture, numbered from 1 */
	struct lock lock;        /* of the list */
	uint32_t count;
	struct captured list[STREAMS_MAX];
	struct stripe_of_readers readers[READER_STRIPES];
};

/* Long enough for a thread that lost its processor inside, or whose one call waits for a lock
 * that the driver holds while somebody else's free waits for a kernel. */
int64_t captures_patience_ns = 1000000000;

static struct captures *_Atomic pages;
static struct captures fallback; /* if pages can't be had: then atfork wipes */

static void wipe_after_fork(void)
{
	memset(&fallback, 0, sizeof(fallback));
}

static struct captures *make(void)
{
	struct captures *none = NULL, *made;
	int saved = errno;

	made = mmap(NULL, sizeof(*made), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (made != MAP_FAILED && madvise(made, sizeof(*made), MADV_WIPEONFORK) < 0) {
		munmap(made, sizeof(*made));
		made = MAP_FAILED;
	}
	if (made == MAP_FAILED)
		made = &fallback;
	if (!atomic_compare_exchange_strong(&pages, &none, made)) {
		if (made != &fallback)
			munmap(made, sizeof(*made));
		made = none;
	} else if (made == &fallback) {
		pthread_atfork(NULL, NULL, wipe_after_fork);
	}
	errno = saved;
	return made;
}

static struct captures *captures(void)
{
	struct captures *made = atomic_load_explicit(&pages, memory_order_acquire);

	return __builtin_expect(made != NULL, 1) ? made : make();
}

/* ---- who must not meet a capture ---- */

static _Atomic uint32_t *own_stripe(struct captures *set)
{
	uint64_t self = (uint64_t)(uintptr_t)&thread_self;
	uint64_t mixed = self * UINT64_C(0x9e3779b97f4a7c15) >> 32;

	return &set->readers[mixed & (READER_STRIPES - 1)].inside;
}

bool captures_enter(void)
{
	struct captures *set = captures();
	_Atomic uint32_t *inside;

	if (atomic_load_explicit(&set->active, memory_order_relaxed))
		return false;
	inside = own_stripe(set);
	atomic_fetch_add(inside, 1);
	if (__builtin_expect(atomic_load(&set->active) == 0, 1))
		return true;
	atomic_fetch_sub(inside, 1);
	return false;
}

void captures_leave(void)
{
	atomic_fetch_sub_explicit(own_stripe(captures()), 1, memory_order_release);
}

/* ---- captures ---- */

static bool anybody_inside(struct captures *set)
{
	for (unsigned int i = 0; i < READER_STRIPES; i++)
		if (atomic_load(&set->readers[i].inside))
			return true;
	return false;
}

static int64_t now_ns(void)
{
	return (int64_t)clock_ns(CLOCK_MONOTONIC);
}

/* Not without an end: a thread may have been stopped inside, for good, and an application that
 * hangs is worse off than one whose capture fails. */
static void wait_until_left(struct captures *set)
{
	const struct timespec nap = { .tv_nsec = 20000 };
	int saved = errno;
	int64_t began = now_ns();

	for (unsigned int tries = 0;
	     anybody_inside(set) && now_ns() - began < captures_patience_ns; tries++)
		if (tries < 32)
			sched_yield();
		else
			nocancel_nanosleep(&nap);
	errno = saved;
}

void captures_beginning(void)
{
	struct captures *set = captures();

	atomic_fetch_add(&set->active, 1);
	if (anybody_inside(set))
		wait_until_left(set);
}

static struct captured key_of(CUstream stream, bool per_thread)
{
	struct captured key = { .stream = (uint64_t)(uintptr_t)stream };

	if (key.stream == PER_THREAD_STREAM || (per_thread && !key.stream)) {
		key.stream = PER_THREAD_STREAM;
		key.thread = (uint64_t)(uintptr_t)&thread_self;
	}
	return key;
}

/* With the lock held. */
static struct captured *find(struct captures *set, const struct captured *key)
{
	for (uint32_t i = 0; i < set->count; i++)
		if (set->list[i].stream == key->stream && set->list[i].thread == key->thread)
			return &set->list[i];
	return NULL;
}

/* Two calls that begin one capture are the driver calling its own exported name. One that is
 * still listed under the same stream otherwise is over, and who ended it is not here yet. More
 * captures than the list holds never end: the pool waits, which spoils nothing. */
void captures_begun(CUstream stream, bool per_thread, uint64_t context, bool success)
{
	struct captures *set = captures();
	struct captured key = key_of(stream, per_thread), *at;
	bool counted = success;

	if (success) {
		lock_take(&set->lock);
		at = find(set, &key);
		counted = !at;
		if (!at && set->count < STREAMS_MAX)
			at = &set->list[set->count++];
		if (at) {
			key.context = context;
			key.capture = atomic_fetch_add(&set->last, 1) + 1;
			*at = key;
		}
		lock_give(&set->lock);
	}
	if (!counted)
		atomic_fetch_sub(&set->active, 1);
}

uint64_t captures_of(CUstream stream, bool per_thread)
{
	struct captures *set = captures();
	struct captured key, *at;
	uint64_t capture;

	if (!atomic_load_explicit(&set->active, memory_order_relaxed))
		return 0;
	key = key_of(stream, per_thread);
	lock_take(&set->lock);
	at = find(set, &key);
	capture = at ? at->capture : 0;
	lock_give(&set->lock);
	return capture;
}

/* With the lock held. The last one takes its place. */
static void remove_at(struct captures *set, uint32_t i)
{
	set->list[i] = set->list[--set->count];
	atomic_fetch_sub(&set->active, 1);
}

void captures_ended(uint64_t capture)
{
	struct captures *set = captures();

	if (!capture)
		return;
	lock_take(&set->lock);
	for (uint32_t i = set->count; i-- > 0;)
		if (set->list[i].capture == capture)
			remove_at(set, i);
	lock_give(&set->lock);
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
	lock_take(&set->lock);
	for (uint32_t i = set->count; i-- > 0;)
		if (set->list[i].context == context && set->list[i].capture <= until)
			remove_at(set, i);
	lock_give(&set->lock);
}
