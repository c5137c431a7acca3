/* SPDX-License-Identifier: MIT
 *
 * Sums up the threads' parts of one memory. A new peak writes only its number and sums into the
 * ledger. Each call site stores what it had live then when it changes next.
 */
#include "interpose/recorder/memories.h"

#include <string.h>

#include "interpose/dispatch/api.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "ledger/kind_table.h"
#include "ledger/shared.h"

/* With more per-thread states than this, a peak is noted only if it exceeds the last one by 1/64,
 * because noting a peak writes into the state of every thread. */
#define EXACT_STATES 2u
#define STEP(bytes) ((bytes) / 64)

/* ---- which memory ---- */

enum ledger_memory memory_class(enum api api, const char *kind, size_t length)
{
	const struct kind *known = kind_find(kind, length);

	if (!known)
		return LEDGER_MEMORY_NONE;
	if (known->memory != KIND_MEMORY_OTHER)
		return LEDGER_MEMORY_DEVICE;
	if (api < API_COUNT && apis[api]->memory != LEDGER_MEMORY_DEVICE)
		return known->limit == KIND_LIMIT_COUNTS ? apis[api]->memory : LEDGER_MEMORY_NONE;
	return known->limit == KIND_LIMIT_NO ? LEDGER_MEMORY_HOST : LEDGER_MEMORY_NONE;
}

/* Locking: the caller holds peak_lock. Returns 0 if there is no room. */
static uint32_t add_memory(struct recorder *recorder, enum ledger_memory class, enum api api,
			   int device)
{
	struct thread_states *states = recorder->thread_states;
	const struct ledger_peak peak = { .memory = class, .device = device };
	uint32_t number = states->memory_count + 1, ref;

	if (number == MEMORY_NUMBERS || !(ref = ledger_add_peak(&recorder->writer, &peak)))
		return 0;
	states->memories[number] = (struct memory_peak){
		.class = class, .api = api, .device = device,
		.record = ledger_at(&recorder->writer, ref),
	};
	states->memory_count = number;
	return number;
}

uint32_t memories_number(struct recorder *recorder, const struct hook *hook, int device)
{
	enum ledger_memory class = memory_class(hook->api, hook->kind, strlen(hook->kind));
	struct thread_states *states = recorder->thread_states;
	enum api api = api_of_devices(hook->api);
	const struct memory_peak *memory;
	uint32_t number;

	if (class == LEDGER_MEMORY_NONE || hook->object)
		return 0;
	if (class == LEDGER_MEMORY_HOST)
		device = -1; /* host memory belongs to no device */
	HOLD(&states->peak_lock);
	for (number = states->memory_count; number; number--) {
		memory = &states->memories[number];
		if (memory->class == class && memory->device == device &&
		    (memory->api == api || class == LEDGER_MEMORY_HOST))
			break;
	}
	if (!number)
		number = add_memory(recorder, class, api, device);
	return number;
}

/* ---- peaks ---- */

void memories_join(struct thread_states *states, struct thread_state *state)
{
	atomic_store_explicit(&state->memories[0].ceiling, INT64_MAX, memory_order_relaxed);
	HOLD(&states->peak_lock);
	for (uint32_t i = 1; i <= states->memory_count; i++)
		atomic_store_explicit(&state->memories[i].peak, states->memories[i].number,
				      memory_order_relaxed);
}

/* The live bytes of one memory; how far they may grow before a new peak is possible, and the amount
 * of suballocations above which one is. */
struct memory_sum {
	int64_t live, suballocated;
	int64_t room, suballocated_ceiling;
};

static void sum_up(struct thread_states *states, unsigned int highest, uint32_t number,
		   struct memory_sum *ret)
{
	*ret = (struct memory_sum){ 0 };
	ret->suballocated = atomic_load_explicit(&states->suballocations[number].live,
						 memory_order_relaxed);
	for (unsigned int i = 0; i < highest; i++)
		ret->live += atomic_load_explicit(&states->state[i].memories[number].live,
						  memory_order_relaxed);
}

static void note(struct memory_peak *memory, const struct ledger_peak_at *peak)
{
	memory->peak = *peak;
	memory->number++;
	memory->record->at[memory->number % 2] = *peak;
	shared_publish(memory->record->number, memory->number);
}

/* Notes SUM if it is a new peak. A framework's cache takes memory before a tensor uses it. So of
 * several moments with the same peak, that with most suballocations counts. */
static void note_peak(struct memory_peak *memory, struct memory_sum *sum, bool exact,
		      uint64_t now_ns)
{
	int64_t peak = (int64_t)memory->peak.bytes, step = exact ? 0 : STEP(peak);
	int64_t inside = (int64_t)memory->peak.suballocated_bytes;
	int64_t inside_step = exact ? 0 : STEP(inside);

	memory->has_suballocations = memory->has_suballocations || sum->suballocated > 0;
	if (sum->live > peak + step ||
	    (sum->live >= peak && sum->suballocated > inside + inside_step)) {
		peak = sum->live;
		inside = sum->suballocated > 0 ? sum->suballocated : 0;
		step = exact ? 0 : STEP(peak);
		inside_step = exact ? 0 : STEP(inside);
		note(memory, &(struct ledger_peak_at){
			.bytes = (uint64_t)peak, .suballocated_bytes = (uint64_t)inside,
			.time_ns = now_ns, .unnoted_bytes = (uint64_t)step,
		});
	}
	sum->room = peak + step - sum->live;
	/* Before the first suballocation this is 0, so the first one makes its thread call
	 * memories_update(). */
	sum->suballocated_ceiling = inside + inside_step;
	if (memory->has_suballocations && sum->live < peak) {
		/* Suballocations do not matter until the blocks have as much as at the peak. */
		sum->suballocated_ceiling = INT64_MAX;
		sum->room = peak - 1 - sum->live;
	}
}

static int64_t part_of(int64_t room, unsigned int parts)
{
	return room <= 0 ? 0 : parts > 1 ? room / (int64_t)parts : room;
}

static void set_ceiling(_Atomic int64_t *ceiling, const _Atomic int64_t *now, int64_t room)
{
	atomic_store_explicit(ceiling, atomic_load_explicit(now, memory_order_relaxed) + room,
			      memory_order_relaxed);
}

void memories_update(struct thread_states *states, uint32_t number, uint64_t now_ns)
{
	unsigned int highest = atomic_load_explicit(&states->highest, memory_order_relaxed);
	struct memory_suballocations *suballocations = &states->suballocations[number];
	struct memory_peak *memory = &states->memories[number];
	bool shared = states->state[0].shared;
	unsigned int parts = highest - (highest > 1) + shared;
	struct memory_sum sum;

	sum_up(states, highest ? highest : 1, number, &sum);
	note_peak(memory, &sum, parts <= EXACT_STATES, now_ns);
	sum.room = part_of(sum.room, parts);
	atomic_store_explicit(&suballocations->ceiling, sum.suballocated_ceiling,
			      memory_order_relaxed);
	atomic_store_explicit(&suballocations->peak, memory->number, memory_order_relaxed);
	for (unsigned int i = 0; i < highest || i == 0; i++) {
		struct memory_part *part = &states->state[i].memories[number];
		bool in_use = i || states->state[0].shared;

		set_ceiling(&part->ceiling, &part->live, in_use ? sum.room : 0);
		atomic_store_explicit(&part->peak, memory->number, memory_order_relaxed);
	}
}
