/* SPDX-License-Identifier: MIT
 *
 * Per-thread call sites, block slots and live bytes, and the peak over all threads. Assigns
 * per-thread states (struct thread_state) to threads.
 *
 * Locking: an ordinary allocation and free takes no lock that threads share.
 */
#include "interpose/recorder/live_bytes.h"
#include "interpose/recorder/thread_state_hot.h"

#include <pthread.h>
#include <string.h>

#include "interpose/base/config.h"
#include "interpose/base/upcalls.h"
#include "ledger/clock.h"
#include "ledger/shared.h"

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
	memories_join(recorder->thread_states, state);
	upcalls.thread_joins(recorder, state);
	pthread_setspecific(end_key, state);
	return state;
}

/* Returns true if the live blocks of HOOK's call sites are counted. Those of virtual memory are
 * not, because their bytes move from one block to another. */
static bool has_series(const struct hook *hook)
{
	return config.accumulation == OPTION_SWITCH_ON &&
	       strncmp(hook->kind, LEDGER_KIND_OBJECT, strlen(LEDGER_KIND_OBJECT)) != 0 &&
	       strncmp(hook->kind, LEDGER_KIND_VIRTUAL, strlen(LEDGER_KIND_VIRTUAL)) != 0;
}

static uint32_t insert_site(struct recorder *recorder, const struct thread_state *state,
			    uint32_t stack, struct hook *hook, int device)
{
	struct ledger_balance balance = { .thread_state = state->number };
	struct ledger_site site = {
		.stack = stack,
		.api = recorder_name_ref(recorder, hook),
		.kind = recorder_kind_ref(recorder, hook),
		.device = device,
	};

	if (!site.api)
		return 0;
	balance.memory = memories_number(recorder, hook, device);
	if (strcmp(hook->kind, LEDGER_KIND_SUBALLOCATION) == 0) {
		site.series = ledger_add_live_series(&recorder->writer);
		return ledger_add_suballocation_site(&recorder->writer, &site, &balance);
	}
	if (has_series(hook) && !(site.series = ledger_add_live_series(&recorder->writer)))
		return 0; /* no room: blocks that are not recorded are reported */
	return ledger_add_site(&recorder->writer, &site, &balance);
}

static struct ledger_site *lookup_or_insert_site(struct recorder *recorder,
						 struct thread_state *state, uint64_t key,
						 uint32_t stack, struct hook *hook, int device)
{
	uint32_t ref = ref_table_find(&state->sites, key);

	if (!ref) {
		ref = insert_site(recorder, state, stack, hook, device);
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

	lock_take(&states->spare_lock);
	for (; state->spares > THREAD_STATE_SLOTS_MAX / 2; state->spares--)
		move_first_slot(recorder, &state->spare, &states->spare);
	lock_give(&states->spare_lock);
}

int64_t live_bytes_total(struct recorder *recorder)
{
	struct thread_states *states = recorder->thread_states;
	unsigned int highest = atomic_load_explicit(&states->highest, memory_order_relaxed);
	int64_t live = atomic_load_explicit(&states->state[0].live, memory_order_relaxed);

	for (unsigned int i = 1; i < highest; i++)
		live += atomic_load_explicit(&states->state[i].live, memory_order_relaxed);
	return live;
}

/* Locking: the caller holds peak_lock. Records LIVE if it is a new peak of the watched time. */
static void update_watched_peak(struct thread_states *states, int64_t live)
{
	uint64_t *at = states->watched_peak_at;

	if (live <= states->watched_peak)
		return;
	states->watched_peak = live;
	if (at && (uint64_t)live > *at)
		atomic_store_explicit(&SHARED(*at), (uint64_t)live, memory_order_relaxed);
}

/* Locking: the caller holds peak_lock. Records the total of live bytes if it is a new peak. Then
 * divides the room below the peak equally among all per-thread states. Until a state has used its
 * part, it cannot make a new peak, whatever the others do. So it need not check. */
static void update_peak(struct recorder *recorder)
{
	struct thread_states *states = recorder->thread_states;
	unsigned int highest = atomic_load_explicit(&states->highest, memory_order_relaxed);
	int64_t live = live_bytes_total(recorder);
	int64_t part;

	if (live > (int64_t)recorder->header->peak_bytes) {
		recorder->header->peak_mono_ns = recorder_time(recorder);
		atomic_store_explicit(&SHARED(recorder->header->peak_bytes), (uint64_t)live,
				      memory_order_release);
	}
	if (live > states->peak)
		states->peak = live;
	update_watched_peak(states, live);
	part = (states->peak < states->watched_peak ? states->peak : states->watched_peak) - live;
	part = part > 0 && highest > 1 ? part / (int64_t)(highest - 1 + states->state[0].shared)
				       : (part > 0 ? part : 0);
	for (unsigned int i = 0; i < highest || i == 0; i++) {
		struct thread_state *state = &states->state[i];

		atomic_store_explicit(&state->ceiling,
				      atomic_load_explicit(&state->live, memory_order_relaxed) +
					      (i || state->shared ? part : 0),
				      memory_order_relaxed);
	}
}

static bool is_above(const _Atomic int64_t *value, const _Atomic int64_t *ceiling)
{
	return atomic_load_explicit(value, memory_order_relaxed) >
	       atomic_load_explicit(ceiling, memory_order_relaxed);
}

void live_bytes_check_peak(struct recorder *recorder, struct thread_state *state, uint32_t memory,
			   uint64_t now_ns)
{
	const struct memory_part *part = &state->memories[memory];

	if (now_ns + 1 == state->contended_tick)
		return;
	/* Another thread is checking the peak now, so an exact moment does not exist. Many threads
	 * must not queue here. Do not try again in this clock tick. */
	if (!lock_try(&recorder->thread_states->peak_lock)) {
		state->contended_tick = now_ns + 1;
		return;
	}
	if (is_above(&state->live, &state->ceiling))
		update_peak(recorder);
	if (memory && (is_above(&part->live, &part->ceiling) ||
		       is_above(&part->suballocated, &part->suballocated_ceiling)))
		memories_update(recorder->thread_states, memory, now_ns);
	lock_give(&recorder->thread_states->peak_lock);
}

uint64_t live_bytes_peak(struct recorder *recorder, bool restart)
{
	struct thread_states *states = recorder->thread_states;
	int64_t peak;

	lock_take(&states->peak_lock);
	update_peak(recorder);
	peak = states->peak;
	if (restart) {
		states->peak = 0;
		/* the current live bytes are the first peak, and no state has room */
		update_peak(recorder);
	}
	lock_give(&states->peak_lock);
	return peak > 0 ? (uint64_t)peak : 0;
}

void live_bytes_watch_peak(struct recorder *recorder, uint64_t *at)
{
	struct thread_states *states = recorder->thread_states;

	lock_take(&states->peak_lock);
	update_peak(recorder);
	states->watched_peak_at = at;
	states->watched_peak = at ? 0 : INT64_MAX;
	update_peak(recorder);
	lock_give(&states->peak_lock);
}

void live_bytes_settle_peak(struct recorder *recorder)
{
	struct thread_states *states = recorder->thread_states;

	if (!lock_try(&states->peak_lock))
		return;
	update_peak(recorder);
	for (uint32_t i = 1; i <= states->memory_count; i++)
		memories_update(states, i, recorder_time(recorder));
	lock_give(&states->peak_lock);
}

void live_bytes_move(struct ledger_site *from, struct ledger_site *to, uint64_t bytes)
{
	struct thread_state *state = thread_self.state;
	struct memory_part *from_part, *to_part;

	thread_state_lock(state);
	from_part = balance_change(state, from, -(int64_t)bytes, 0);
	to_part = balance_change(state, to, (int64_t)bytes, 0);
	atomic_fetch_sub_explicit(&from_part->live, (int64_t)bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&to_part->live, (int64_t)bytes, memory_order_relaxed);
	thread_state_unlock(state);
}
