/* SPDX-License-Identifier: MIT
 *
 * The live bytes of all threads, and their peak. Also the rare part of counting live blocks.
 * thread_state.h and live_counts.h have the functions that each allocation and free runs.
 *
 * Locking: an ordinary allocation and free takes no lock that threads share.
 */
#include "interpose/recorder/live_bytes.h"

#include "interpose/recorder/live_counts.h"
#include "interpose/recorder/trace.h"

int64_t live_bytes_total(struct recorder *recorder)
{
	struct thread_states *states = recorder->thread_states;
	unsigned int highest = atomic_load_explicit(&states->highest, memory_order_relaxed);
	int64_t live = atomic_load_explicit(&states->state[0].live, memory_order_relaxed);

	for (unsigned int i = 1; i < highest; i++)
		live += atomic_load_explicit(&states->state[i].live, memory_order_relaxed);
	return live;
}

/* Locking: the caller holds peak_lock. Records LIVE if it is the largest total since
 * live_bytes_watch_peak(). */
static void update_watched_peak(struct thread_states *states, int64_t live)
{
	uint64_t *at = states->watched_peak_at;

	if (live <= states->watched_peak)
		return;
	states->watched_peak = live;
	if (at && (uint64_t)live > *at)
		shared_store(*at, (uint64_t)live);
}

/* Locking: the caller holds peak_lock. LIVE bytes were live at some moment: raises the peak of the
 * process to LIVE, if it is lower. */
static void raise_peak(struct recorder *recorder, int64_t live)
{
	const struct thread_states *states = recorder->thread_states;
	uint64_t alarm = atomic_load_explicit(&states->alarm_bytes, memory_order_relaxed);

	if (live <= (int64_t)recorder->header->peak_bytes)
		return;
	recorder->header->peak_mono_ns = recorder_time(recorder);
	shared_publish(recorder->header->peak_bytes, (uint64_t)live);
	if (alarm && (uint64_t)live >= alarm &&
	    recorder->header->peak_mono_ns >= atomic_load(&states->alarm_ns))
		atomic_fetch_or(&alloc_checks, CHECK_PEAK);
}

/* Locking: the caller holds peak_lock. Notes a new peak of memory NUMBER. Other threads go on, so
 * this peak may exceed the total of all memories that was computed a moment before. */
static void update_memory(struct recorder *recorder, uint32_t number, uint64_t now_ns)
{
	struct thread_states *states = recorder->thread_states;

	memories_update(states, number, now_ns);
	raise_peak(recorder, (int64_t)states->memories[number].peak.bytes);
}

/* Locking: the caller holds peak_lock. Records the total of live bytes if it is a new peak. Then
 * divides the difference between the peak and the total equally among all per-thread states. While
 * the live bytes of each state grow by less than its part, no new peak is possible, so a state need
 * not check. */
static void update_peak(struct recorder *recorder)
{
	struct thread_states *states = recorder->thread_states;
	unsigned int highest = atomic_load_explicit(&states->highest, memory_order_relaxed);
	int64_t live = live_bytes_total(recorder);
	int64_t part;

	raise_peak(recorder, live);
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
	const struct memory_suballocations *suballocations =
		&recorder->thread_states->suballocations[memory];
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
		       is_above(&suballocations->live, &suballocations->ceiling)))
		update_memory(recorder, memory, now_ns);
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

	HOLD(&states->peak_lock);
	update_peak(recorder);
	states->watched_peak_at = at;
	states->watched_peak = at ? 0 : INT64_MAX;
	update_peak(recorder);
}

void live_bytes_settle_peak(struct recorder *recorder)
{
	struct thread_states *states = recorder->thread_states;

	if (!lock_try(&states->peak_lock))
		return;
	update_peak(recorder);
	for (uint32_t i = 1; i <= states->memory_count; i++)
		update_memory(recorder, i, recorder_time(recorder));
	lock_give(&states->peak_lock);
}

static void hide(struct ledger_balance *others, enum ledger_hidden hidden, int64_t bytes,
		 int32_t blocks)
{
	if (hidden == LEDGER_HIDDEN_NOT)
		return;
	shared_add(others->hidden_bytes[hidden], (uint64_t)bytes);
	shared_add(others->hidden_blocks[hidden], (uint32_t)blocks);
}

void live_bytes_rehide(struct recorder *recorder, const struct ledger_block *block, int64_t bytes,
		       enum ledger_hidden before, enum ledger_hidden now)
{
	struct ledger_balance *others =
		balance_of_others(ledger_at(&recorder->writer, block->site));

	if (before == now)
		return;
	hide(others, before, -bytes, -1);
	hide(others, now, bytes, 1);
}

/* Locking: the caller holds STATE's lock. Adds BYTES, which may be negative, to what the call site
 * of BLOCK has live. */
static void change_bytes(struct recorder *recorder, struct thread_state *state,
			 const struct ledger_block *block, int64_t bytes)
{
	struct ledger_site *site = ledger_at(&recorder->writer, block->site);
	struct memory_part *part = balance_change(recorder, state, site, bytes, 0);

	hide(balance_of_others(site), live_bytes_hidden(block), bytes, 0);
	atomic_fetch_add_explicit(&part->live, bytes, memory_order_relaxed);
}

void live_bytes_move(struct recorder *recorder, struct ledger_block *from, struct ledger_block *to)
{
	struct thread_state *state = thread_self.state;
	uint64_t bytes = from->bytes;

	if (trace_is_on()) {
		trace_block(recorder, LEDGER_TRACE_BYTES_GIVEN, from, bytes,
			    recorder_time(recorder));
		trace_block(recorder, LEDGER_TRACE_BYTES_TAKEN, to, bytes, recorder_time(recorder));
	}
	thread_state_lock(state);
	change_bytes(recorder, state, from, -(int64_t)bytes);
	change_bytes(recorder, state, to, (int64_t)bytes);
	thread_state_unlock(state);
	shared_publish(to->bytes, bytes);
	shared_publish(from->bytes, 0);
}

void live_counts_begin_window(struct recorder *recorder, struct ledger_live_series *series,
			      uint64_t allocs, uint64_t suballocated)
{
	const struct live_moment moment = { suballocated, allocs, recorder_time(recorder) };

	live_series_begin(series, &moment);
}
