/* SPDX-License-Identifier: MIT
 *
 * Stores histories in the ledger so that readers see a consistent one at every moment. An event is
 * written before its bit in `kept` is set. A pair is removed by one store, which clears two bits
 * and increases a counter. If a history is full, this code selects a pair of retain and release to
 * remove. The report makes pairs of the others.
 */
#include "interpose/block/refcount_history.h"

#include <stdbool.h>

#include "interpose/recorder/recorder.h"
#include "ledger/shared.h"

#define ALL_KEPT ((1ull << LEDGER_HISTORY_EVENTS) - 1)
#define ONE_LEFT_OUT (1ull << 32)
_Static_assert(LEDGER_HISTORY_EVENTS < 32,
	       "`kept` has the bits of events below bit 32, and a counter from there on");

struct ledger_history *history_take(struct recorder *recorder)
{
	struct histories *histories = recorder->histories;
	struct ledger_history *history;
	uint32_t ref;

	lock_take(&histories->lock);
	history = histories->spare;
	if (history)
		histories->spare = history->next_spare
					   ? ledger_at(&recorder->writer, history->next_spare)
					   : NULL;
	lock_give(&histories->lock);
	if (history)
		return history;
	ref = ledger_add_history(&recorder->writer, NULL);
	return ref ? ledger_at(&recorder->writer, ref) : NULL;
}

void history_give(struct recorder *recorder, struct ledger_history *history)
{
	struct histories *histories = recorder->histories;

	if (!ledger_is_in(&recorder->writer, history, LEDGER_CHUNK_HISTORIES))
		return; /* it is the name of a block: see query_set_name() */
	shared_store(history->block, 0);
	shared_publish(history->kept, 0);
	HOLD(&histories->lock);
	history->next_spare = histories->spare ? ledger_ref(&recorder->writer, histories->spare)
					       : 0;
	histories->spare = history;
}

void history_attach(struct recorder *recorder, struct ledger_block *block,
		    struct ledger_history *empty)
{
	empty->lost = 0;
	empty->block = ledger_ref(&recorder->writer, block);
	shared_publish(block->history, ledger_ref(&recorder->writer, empty));
}

static bool is_kept(const struct ledger_history *history, unsigned int slot)
{
	return history->kept >> slot & 1;
}

/* Returns the number of outermost frames that two stacks have in common. A retain and a release in
 * one scope of the program have most in common. */
static unsigned int alike(struct recorder *recorder, uint32_t a_ref, uint32_t b_ref)
{
	const struct ledger_stack *a = ledger_at(&recorder->writer, a_ref);
	const struct ledger_stack *b = ledger_at(&recorder->writer, b_ref);
	unsigned int same = 0;

	if (!a_ref || !b_ref)
		return 0;
	while (same < a->frames && same < b->frames &&
	       a->pc[a->frames - 1 - same] == b->pc[b->frames - 1 - same])
		same++;
	return same;
}

/* Returns the slot of the retain before RELEASE that most likely belongs to it. That is the one
 * with the most similar stack; of equally similar ones the latest. Returns LEDGER_HISTORY_EVENTS if
 * there is no such retain. */
static unsigned int partner_of(struct recorder *recorder, const struct ledger_history *history,
			       const struct ledger_reference *release)
{
	unsigned int best = LEDGER_HISTORY_EVENTS, best_alike = 0;

	for (unsigned int i = 0; i < LEDGER_HISTORY_EVENTS; i++) {
		const struct ledger_reference *event = &history->events[i];
		unsigned int now;

		if (!is_kept(history, i) || event->op != LEDGER_RETAIN ||
		    (release->order && event->order > release->order))
			continue;
		now = alike(recorder, event->stack, release->stack);
		if (best == LEDGER_HISTORY_EVENTS || now > best_alike ||
		    (now == best_alike && event->order > history->events[best].order)) {
			best = i;
			best_alike = now;
		}
	}
	return best;
}

static void leave_out(struct ledger_history *history, uint64_t gone)
{
	shared_publish(history->kept, (history->kept & ~gone) + ONE_LEFT_OUT);
}

/* Removes the oldest release that has a matching retain, and that retain. Returns false if there is
 * no such pair. */
static bool leave_out_oldest(struct recorder *recorder, struct ledger_history *history)
{
	unsigned int oldest = LEDGER_HISTORY_EVENTS, oldest_partner = 0;

	for (unsigned int i = 0; i < LEDGER_HISTORY_EVENTS; i++) {
		const struct ledger_reference *event = &history->events[i];
		unsigned int partner;

		if (!is_kept(history, i) || event->op != LEDGER_RELEASE ||
		    (oldest < LEDGER_HISTORY_EVENTS &&
		     event->order > history->events[oldest].order))
			continue;
		partner = partner_of(recorder, history, event);
		if (partner == LEDGER_HISTORY_EVENTS)
			continue; /* it released the reference of the call that made the block */
		oldest = i;
		oldest_partner = partner;
	}
	if (oldest == LEDGER_HISTORY_EVENTS)
		return false;
	leave_out(history, 1ull << oldest | 1ull << oldest_partner);
	return true;
}

/* Handles EVENT if the history is full and has no complete pair. A retain is only counted as lost.
 * A release cancels a lost retain. If no retain is lost, the release removes the retain that it
 * belongs to. */
static void add_to_full(struct recorder *recorder, struct ledger_history *history,
			const struct ledger_reference *event)
{
	unsigned int partner;

	if (event->op == LEDGER_RETAIN) {
		shared_store(history->lost, history->lost + 1);
	} else if (history->lost) {
		shared_store(history->lost, history->lost - 1);
		leave_out(history, 0);
	} else {
		partner = partner_of(recorder, history, event);
		leave_out(history, partner < LEDGER_HISTORY_EVENTS ? 1ull << partner : 0);
	}
}

uint32_t history_add(struct recorder *recorder, struct ledger_history *history,
		     const struct ledger_reference *event)
{
	struct ledger_reference *slot;
	unsigned int number;

	if ((history->kept & ALL_KEPT) == ALL_KEPT && !leave_out_oldest(recorder, history)) {
		add_to_full(recorder, history, event);
		return 0;
	}
	number = (unsigned int)__builtin_ctzll(~history->kept);
	slot = &history->events[number];
	shared_publish(slot->order, 0);
	/* no reader sees new fields with the old order */
	atomic_thread_fence(memory_order_seq_cst);
	slot->op = event->op;
	slot->api = event->api;
	slot->stack = event->stack;
	slot->time_ns = event->time_ns;
	if (++history->order == 0)
		history->order = 1;
	shared_publish(slot->order, history->order);
	shared_publish(history->kept, history->kept | 1ull << number);
	return slot->order;
}

void history_remove(struct ledger_history *history, uint32_t order)
{
	for (unsigned int i = 0; i < LEDGER_HISTORY_EVENTS && order; i++)
		if (is_kept(history, i) && history->events[i].order == order)
			shared_publish(history->kept, history->kept & ~(1ull << i));
}
