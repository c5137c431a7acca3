/* SPDX-License-Identifier: MIT
 *
 * Per-thread call sites and block slots. Assigns per-thread states (struct thread_state) to
 * threads.
 *
 * Locking: an ordinary allocation and free takes no lock that threads share.
 */
#include "interpose/recorder/thread_state.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "interpose/base/upcalls.h"

#define SLOTS_AT_ONCE 16u

static pthread_key_t end_key;
static pthread_once_t end_once = PTHREAD_ONCE_INIT;
static bool end_works;

/* Thread-specific-data destructor: when a thread ends, makes its per-thread state available to the
 * next thread. The state keeps its content. */
static void thread_ended(void *value)
{
	struct thread_state *state = value;
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
	if (!recorder || state < recorder->thread_states->state ||
	    state >= recorder->thread_states->state + recorder->thread_states->count)
		return; /* STATE belongs to the parent's recorder */
	number = state - recorder->thread_states->state;
	atomic_store(&state->owner, NULL);
	if (number > 0)
		atomic_fetch_and(&recorder->thread_states->taken[number / 64],
				 ~(1ull << (number % 64)));
}

static void make_end_key(void)
{
	end_works = pthread_key_create(&end_key, thread_ended) == 0;
}

static struct thread_state *allocate_state(struct thread_states *states)
{
	for (unsigned int number = 1; number < states->count; number++) {
		_Atomic uint64_t *word = &states->taken[number / 64];
		uint64_t bit = 1ull << (number % 64);
		unsigned int highest;

		if (atomic_load_explicit(word, memory_order_relaxed) & bit ||
		    atomic_fetch_or(word, bit) & bit)
			continue;
		highest = atomic_load(&states->highest);
		while (highest <= number &&
		       !atomic_compare_exchange_weak(&states->highest, &highest, number + 1))
			;
		return &states->state[number];
	}
	return NULL;
}

struct thread_state *thread_state_join(struct recorder *recorder)
{
	struct thread_state *state = NULL;

	pthread_once(&end_once, make_end_key);
	if (end_works)
		state = allocate_state(recorder->thread_states);
	if (!state) {
		state = &recorder->thread_states->state[0];
		state->shared = true;
		memories_join(recorder->thread_states, state);
		return state;
	}
	state->number = (uint32_t)(state - recorder->thread_states->state);
	atomic_store(&state->owner, &thread_self);
	memories_join(recorder->thread_states, state);
	upcalls.thread_joins(recorder, state);
	pthread_setspecific(end_key, state);
	return state;
}

bool thread_states_busy(const struct recorder *recorder)
{
	const struct thread_states *states = recorder->thread_states;
	unsigned int highest = atomic_load(&states->highest);
	uintptr_t busy;

	for (unsigned int i = 1; i < highest; i++) {
		const struct thread *owner = atomic_load(&states->state[i].owner);
		const struct iovec here = { &busy, sizeof(busy) };
		const struct iovec there = { (void *)(uintptr_t)&owner->busy, sizeof(busy) };

		/* copied by the kernel, since the thread may end meanwhile */
		if (owner && syscall(SYS_process_vm_readv, getpid(), &here, 1ul, &there, 1ul,
				     0ul) == sizeof(busy) && busy)
			return true;
	}
	return false;
}

uint32_t site_waiting_range(struct recorder *recorder, uint32_t stack)
{
	uint64_t word = atomic_load_explicit(&recorder->waiting, memory_order_acquire);
	const struct ledger_stack *record = stack ? ledger_at(&recorder->writer, stack) : NULL;
	const struct ledger_python *frames =
		record && record->python ? ledger_at(&recorder->writer, record->python) : NULL;

	if (word / WAITING_ONE != 1 || !frames || !(frames->flags & LEDGER_PYTHON_WAITING))
		return 0;
	return word >> 32 & LEDGER_RANGE_OTHER;
}

static uint32_t insert_site(struct recorder *recorder, const struct thread_state *state,
			    uint64_t key, uint32_t stack, struct hook *hook, int device)
{
	uint32_t range = (uint32_t)key >> (SITE_HOOK_BITS + SITE_DEVICE_BITS);
	struct ledger_balance balance = { .thread_state = (uint16_t)state->number };
	struct ledger_site site = {
		.stack = stack,
		.api = recorder_name_ref(recorder, hook),
		.kind = recorder_kind_ref(recorder, hook),
		.device = device,
	};

	if (!site.api)
		return 0;
	balance.memory = memories_number(recorder, hook, device);
	balance.range = range ? named_range_write(recorder, state->number, (uint16_t)range) : 0;
	if (strcmp(hook->kind, LEDGER_KIND_SUBALLOCATION) == 0) {
		site.series = ledger_add_live_series(&recorder->writer, NULL);
		return ledger_add_suballocation_site(&recorder->writer, &site, &balance);
	}
	if (upcalls.counts_live(recorder, hook, stack) &&
	    !(site.series = ledger_add_live_series(&recorder->writer, NULL)))
		return 0; /* the ledger is full: the caller counts the block as not recorded */
	return ledger_add_site(&recorder->writer, &site, &balance);
}

static struct ledger_site *lookup_or_insert_site(struct recorder *recorder,
						 struct thread_state *state, uint64_t key,
						 uint32_t stack, struct hook *hook, int device)
{
	uint32_t ref = ref_table_find(&state->sites, key);

	if (!ref) {
		ref = insert_site(recorder, state, key, stack, hook, device);
		if (ref)
			ref_table_set(&recorder->arena, &state->sites, key, ref);
	}
	return ref ? ledger_at(&recorder->writer, ref) : NULL;
}

struct ledger_site *site_lookup_slowly(struct recorder *recorder, struct thread_state *state,
				       uint64_t key, uint32_t stack, struct hook *hook, int device)
{
	unsigned int slot = site_cache_index(key);
	struct ledger_site *site = lookup_or_insert_site(recorder, state, key, stack, hook, device);

	if (site) {
		state->site_cache[slot].key = key;
		state->site_cache[slot].site = site;
	}
	return site;
}

/* Moves the first slot of the list FROM to the list TO. */
static void move_first_slot(struct recorder *recorder, uint32_t *from, uint32_t *to)
{
	uint32_t ref = *from;
	struct ledger_block *block = ledger_at(&recorder->writer, ref);

	*from = block->next_spare;
	block->next_spare = *to;
	*to = ref;
}

void slots_refill(struct recorder *recorder, struct thread_state *state)
{
	struct thread_states *states = recorder->thread_states;
	struct ledger_block *first;
	unsigned int count;

	lock_take(&states->spare_lock);
	for (count = 0; count < SLOTS_AT_ONCE && states->spare; count++)
		move_first_slot(recorder, &states->spare, &state->spare);
	lock_give(&states->spare_lock);
	state->spares += count;
	if (count)
		return;
	count = ledger_add_blocks(&recorder->writer, SLOTS_AT_ONCE, &first);
	state->spares += count;
	while (count--) {
		first[count].next_spare = state->spare;
		state->spare = ledger_ref(&recorder->writer, &first[count]);
	}
}

/* A thread that only frees would accumulate slots. Returns half of them to the list that all
 * threads share. */
void slots_shed(struct recorder *recorder, struct thread_state *state)
{
	struct thread_states *states = recorder->thread_states;

	HOLD(&states->spare_lock);
	for (; state->spares > THREAD_STATE_SLOTS_MAX / 2; state->spares--)
		move_first_slot(recorder, &state->spare, &states->spare);
}
