/* SPDX-License-Identifier: MIT
 *
 * Per-thread call sites, block slots and live bytes, and the peak over all threads. Assigns
 * per-thread states (struct stripe) to threads.
 *
 * Locking: an ordinary allocation and free takes no lock that threads share.
 */
#include "interpose/recorder/thread_state_hot.h"

#include <pthread.h>

#include "interpose/base/upcalls.h"
#include "ledger/clock.h"

#define SLOTS_AT_ONCE 16u

static pthread_key_t leave_key;
static pthread_once_t leave_once = PTHREAD_ONCE_INIT;
static bool leave_works;

/* Thread-specific-data destructor: when a thread ends, makes its per-thread state available to the
 * next thread. The state keeps its content. */
static void leave(void *value)
{
	struct stripe *stripe = value;
	struct recorder *recorder = recorder_now();
	ptrdiff_t number;

	if (thread_self.call_frame)
		upcalls.thread_ends_in_call();
	if (recorder && thread_self.busy && thread_self.generation == recorder->generation) {
		recorder_stop(); /* for example, the thread was cancelled inside gpuleak */
		thread_self.busy = 0;
		return;
	}
	/* later destructors may still allocate; then the thread joins again */
	thread_self.generation = 0;
	if (!recorder || stripe < recorder->stripes->stripe ||
	    stripe >= recorder->stripes->stripe + recorder->stripes->count)
		return; /* STRIPE belongs to the parent's recorder */
	number = stripe - recorder->stripes->stripe;
	if (number > 0)
		atomic_fetch_and(&recorder->stripes->taken[number / 64], ~(1ull << (number % 64)));
}

static void make_leave_key(void)
{
	leave_works = pthread_key_create(&leave_key, leave) == 0;
}

static struct stripe *take_free(struct stripes *stripes)
{
	for (unsigned int number = 1; number < stripes->count; number++) {
		_Atomic uint64_t *word = &stripes->taken[number / 64];
		uint64_t bit = 1ull << (number % 64);
		unsigned int highest;

		if (atomic_load_explicit(word, memory_order_relaxed) & bit ||
		    atomic_fetch_or(word, bit) & bit)
			continue;
		highest = atomic_load(&stripes->highest);
		while (highest <= number &&
		       !atomic_compare_exchange_weak(&stripes->highest, &highest, number + 1))
			;
		return &stripes->stripe[number];
	}
	return NULL;
}

struct stripe *stripe_join(struct recorder *recorder)
{
	struct stripe *stripe = NULL;

	pthread_once(&leave_once, make_leave_key);
	if (leave_works)
		stripe = take_free(recorder->stripes);
	if (!stripe) {
		stripe = &recorder->stripes->stripe[0];
		stripe->shared = true;
		return stripe;
	}
	upcalls.thread_joins(recorder, stripe);
	pthread_setspecific(leave_key, stripe);
	return stripe;
}

static uint32_t make_row(struct recorder *recorder, uint32_t stack, struct hook *hook, int device)
{
	struct ledger_row row = {
		.stack = stack,
		.api = recorder_name_ref(recorder, hook),
		.kind = recorder_kind_ref(recorder, hook),
		.device = device,
	};

	return row.api ? ledger_add_row(&recorder->writer, &row) : 0;
}

static struct ledger_row *find_row(struct recorder *recorder, struct stripe *stripe, uint64_t key,
				   uint32_t stack, struct hook *hook, int device)
{
	uint32_t ref = ref_table_find(&stripe->rows, key);

	if (!ref) {
		ref = make_row(recorder, stack, hook, device);
		if (ref)
			ref_table_set(&recorder->arena, &stripe->rows, key, ref);
	}
	return ref ? ledger_at(&recorder->writer, ref) : NULL;
}

struct ledger_row *stripe_row_seldom(struct recorder *recorder, struct stripe *stripe,
				     uint64_t key, uint32_t stack, struct hook *hook, int device)
{
	unsigned int slot = stripe_row_slot(key);
	struct ledger_row *row = find_row(recorder, stripe, key, stack, hook, device);

	if (row) {
		stripe->row_cache[slot].key = key;
		stripe->row_cache[slot].row = row;
	}
	return row;
}

/* Moves the first slot of the list FROM to the list TO. */
static void move_spare(struct recorder *recorder, uint32_t *from, uint32_t *to)
{
	uint32_t ref = *from;
	struct ledger_block *block = ledger_at(&recorder->writer, ref);

	*from = block->next_spare;
	block->next_spare = *to;
	*to = ref;
}

void stripe_refill(struct recorder *recorder, struct stripe *stripe)
{
	struct stripes *stripes = recorder->stripes;
	struct ledger_block *first;
	unsigned int count;

	lock_take(&stripes->spare_lock);
	for (count = 0; count < SLOTS_AT_ONCE && stripes->spare; count++)
		move_spare(recorder, &stripes->spare, &stripe->spare);
	lock_give(&stripes->spare_lock);
	stripe->spares += count;
	if (count)
		return;
	count = ledger_add_blocks(&recorder->writer, SLOTS_AT_ONCE, &first);
	stripe->spares += count;
	while (count--) {
		first[count].next_spare = stripe->spare;
		stripe->spare = ledger_ref(&recorder->writer, &first[count]);
	}
}

/* A thread that only frees would accumulate slots. Returns half of them to the list that all
 * threads share. */
void stripe_shed(struct recorder *recorder, struct stripe *stripe)
{
	struct stripes *stripes = recorder->stripes;

	lock_take(&stripes->spare_lock);
	for (; stripe->spares > STRIPE_SPARES_MAX / 2; stripe->spares--)
		move_spare(recorder, &stripe->spare, &stripes->spare);
	lock_give(&stripes->spare_lock);
}

int64_t stripes_live(struct recorder *recorder)
{
	struct stripes *stripes = recorder->stripes;
	unsigned int highest = atomic_load_explicit(&stripes->highest, memory_order_relaxed);
	int64_t live = atomic_load_explicit(&stripes->stripe[0].live, memory_order_relaxed);

	for (unsigned int i = 1; i < highest; i++)
		live += atomic_load_explicit(&stripes->stripe[i].live, memory_order_relaxed);
	return live;
}

/* Locking: the caller holds peak_lock. Records the total of live bytes if it is a new peak. Then
 * divides the room below the peak equally among all per-thread states. Until a state has used its
 * part, it cannot make a new peak, whatever the others do. So it need not check. */
static void look_at_peak(struct recorder *recorder)
{
	struct stripes *stripes = recorder->stripes;
	unsigned int highest = atomic_load_explicit(&stripes->highest, memory_order_relaxed);
	int64_t live = stripes_live(recorder);
	int64_t part;

	if (live > (int64_t)recorder->header->peak_bytes) {
		recorder->header->peak_mono_ns = recorder_time(recorder);
		__atomic_store_n(&recorder->header->peak_bytes, (uint64_t)live, __ATOMIC_RELEASE);
	}
	if (live > stripes->peak)
		stripes->peak = live;
	part = stripes->peak - live;
	part = part > 0 && highest > 1 ? part / (int64_t)(highest - 1 + stripes->stripe[0].shared)
				       : (part > 0 ? part : 0);
	for (unsigned int i = 0; i < highest || i == 0; i++) {
		struct stripe *stripe = &stripes->stripe[i];

		atomic_store_explicit(&stripe->ceiling,
				      atomic_load_explicit(&stripe->live, memory_order_relaxed) +
					      (i || stripe->shared ? part : 0),
				      memory_order_relaxed);
	}
}

void stripe_may_be_peak(struct recorder *recorder, struct stripe *stripe, uint64_t now_ns)
{
	if (now_ns + 1 == stripe->contended_tick)
		return;
	/* Another thread is checking the peak now, so an exact moment does not exist. Many threads
	 * must not queue here. Do not try again in this clock tick. */
	if (!lock_try(&recorder->stripes->peak_lock)) {
		stripe->contended_tick = now_ns + 1;
		return;
	}
	look_at_peak(recorder);
	lock_give(&recorder->stripes->peak_lock);
}

uint64_t stripes_peak(struct recorder *recorder, bool restart)
{
	struct stripes *stripes = recorder->stripes;
	int64_t peak;

	lock_take(&stripes->peak_lock);
	look_at_peak(recorder);
	peak = stripes->peak;
	if (restart) {
		stripes->peak = 0;
		/* the current live bytes are the first peak, and no state has room */
		look_at_peak(recorder);
	}
	lock_give(&stripes->peak_lock);
	return peak > 0 ? (uint64_t)peak : 0;
}

void stripes_settle(struct recorder *recorder)
{
	if (!lock_try(&recorder->stripes->peak_lock))
		return;
	look_at_peak(recorder);
	lock_give(&recorder->stripes->peak_lock);
}
