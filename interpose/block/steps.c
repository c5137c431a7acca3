/* SPDX-License-Identifier: MIT
 *
 * Counts the live blocks of each call site and records the counts in the ledger. Uses a bounded
 * number of records: later steps overwrite the oldest ones, and all steps with one name share one.
 * Must not be called by a signal handler, and must not block threads that allocate.
 */
#include "interpose/block/steps.h"

#include <string.h>

#include "interpose/base/hash.h"
#include "interpose/recorder/live_bytes.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/trace.h"
#include "ledger/totals.h"

struct step_row {
	uint64_t key; /* ref of the ledger's row (struct ledger_site) */
	struct step_site *site; /* NULL: the call site could not be stored */
	UT_hash_handle hh;
};

struct step_site {
	/* hash of stack, call, kind and device; on a collision the next unused number */
	uint64_t key;
	struct ledger_growth *record; /* NULL: not written yet */
	struct ledger_growth what;
	struct ledger_live now;
	struct step_site *next;
	UT_hash_handle hh;
};

static uint64_t key_of_counters(const struct ledger_site *counters)
{
	uint64_t key = TABLE_MIX((uint64_t)counters->api << 32 | counters->kind);

	return TABLE_MIX(key ^ (uint32_t)counters->device) ^ counters->stack;
}

static bool is_site_of(const struct step_site *site, const struct ledger_site *counters)
{
	return site->what.stack == counters->stack && site->what.api == counters->api &&
	       site->what.kind == counters->kind && site->what.device == counters->device;
}

/* Returns the call site of COUNTERS, or NULL if there is no room for another one. */
static struct step_site *find_site(struct recorder *recorder, const struct ledger_site *counters)
{
	struct steps *steps = recorder->steps;
	uint64_t key = key_of_counters(counters);
	struct step_site *site;

	for (;; key++) {
		TABLE_FIND(steps->sites, &key, site);
		if (!site)
			break;
		if (is_site_of(site, counters))
			return site;
	}
	if (steps->site_count == LEDGER_GROWTH_MAX ||
	    !(site = arena_take(&recorder->arena, sizeof(*site)))) {
		steps->lost++;
		return NULL;
	}
	site->key = key;
	site->what = (struct ledger_growth){
		.stack = counters->stack,
		.api = counters->api,
		.kind = counters->kind,
		.device = counters->device,
		.first_step = steps->number,
	};
	TABLE_ADD(&recorder->arena, steps->sites, key, site);
	site->next = steps->first;
	steps->first = site;
	steps->site_count++;
	return site;
}

/* Returns the call site of COUNTERS, or NULL if COUNTERS has had no live block yet or there is no
 * room. */
static struct step_site *site_of(struct recorder *recorder, const struct ledger_site *counters,
				 const struct ledger_live *live)
{
	struct steps *steps = recorder->steps;
	uint64_t ref = ledger_ref(&recorder->writer, counters);
	struct step_row *known;

	TABLE_FIND(steps->rows, &ref, known);
	if (known)
		return known->site;
	if (!live->blocks)
		return NULL;
	known = arena_take(&recorder->arena, sizeof(*known));
	if (!known) {
		steps->lost++;
		return NULL;
	}
	known->key = ref;
	known->site = find_site(recorder, counters);
	TABLE_ADD(&recorder->arena, steps->rows, key, known);
	return known->site;
}

static void count_sites(struct recorder *recorder, const struct ledger_view *view,
			struct ledger_live *ret)
{
	for (struct step_site *site = recorder->steps->first; site; site = site->next)
		site->now = (struct ledger_live){ 0 };
	*ret = (struct ledger_live){ 0 };
	LEDGER_EACH(site, counters, view) {
		const struct ledger_live live =
			ledger_site_live(view, counters, LEDGER_COUNT_REPORTED);
		struct step_site *site = site_of(recorder, counters, &live);

		if (live.blocks && !ledger_site_is_object(view, counters)) {
			ret->blocks += live.blocks;
			ret->bytes += live.bytes;
		}
		if (!site)
			continue;
		site->now.blocks += live.blocks;
		site->now.bytes += live.bytes;
	}
}

static void fill_in(struct ledger_growth_at *at, const struct ledger_live *now, uint32_t number)
{
	shared_store(at->step, 0);
	atomic_thread_fence(memory_order_release);
	at->blocks = now->blocks < UINT32_MAX ? (uint32_t)now->blocks : UINT32_MAX;
	at->bytes = now->bytes;
	shared_publish(at->step, number);
}

static void note_sites(struct recorder *recorder)
{
	struct steps *steps = recorder->steps;
	unsigned int slot = steps->number % LEDGER_GROWTH_STEPS;

	for (struct step_site *site = steps->first; site; site = site->next) {
		uint32_t ref;

		if (site->record) {
			fill_in(&site->record->at[slot], &site->now, steps->number);
			continue;
		}
		/* This may be a retry: if an earlier step had no room, the record begins at this
		 * step. */
		site->what.first_step = steps->number;
		memset(site->what.at, 0, sizeof(site->what.at));
		fill_in(&site->what.at[slot], &site->now, steps->number);
		ref = ledger_add_growth(&recorder->writer, &site->what);
		if (ref)
			site->record = ledger_at(&recorder->writer, ref);
		else
			steps->lost++;
	}
}

/* Returns the record for step NUMBER. Adds records to the ledger until there are LEDGER_STEPS_MAX,
 * then reuses them. */
static struct ledger_step *step_record(struct recorder *recorder, uint32_t number)
{
	struct steps *steps = recorder->steps;
	static const struct ledger_step empty;
	uint32_t ref;

	if (number > LEDGER_STEPS_MAX)
		return steps->records + (number - 1) % LEDGER_STEPS_MAX;
	ref = ledger_add_step(&recorder->writer, &empty);
	if (ref && number == 1)
		steps->records = ledger_at(&recorder->writer, ref);
	return ref ? ledger_at(&recorder->writer, ref) : NULL;
}

static void note_step(struct recorder *recorder, struct ledger_step *record,
		      const struct ledger_live *total, uint64_t time_ns, const char *label)
{
	shared_store(record->number, 0);
	atomic_thread_fence(memory_order_release);
	record->time_ns = time_ns;
	record->live_bytes = total->bytes;
	record->live_blocks = total->blocks;
	record->lost = recorder->steps->lost;
	memset(record->label, 0, sizeof(record->label));
	if (label)
		memcpy(record->label, label, strnlen(label, sizeof(record->label)));
	shared_publish(record->number, recorder->steps->number);
}

static uint32_t write_step(struct recorder *recorder, const char *label)
{
	uint64_t time_ns = recorder_fine_time(recorder);
	struct steps *steps = recorder->steps;
	struct ledger_view view;
	struct ledger_step *record;
	struct ledger_live total;

	if (ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view) != LEDGER_OK)
		return 0;
	record = step_record(recorder, steps->number + 1);
	if (!record)
		return 0;
	steps->number++;
	count_sites(recorder, &view, &total);
	note_sites(recorder);
	note_step(recorder, record, &total, time_ns, label);
	trace_add(recorder, LEDGER_TRACE_STEP, 0, steps->number, total.bytes,
		  recorder_time(recorder));
	return steps->number;
}

/* ---- named steps: what the process allocated and freed between two moments, and its peak ---- */

/* Returns the record of NAME. The first LEDGER_STEP_NAMES names have a record each, and all later
 * names share one. Returns NULL if the ledger has no room. NAME is filled up with zeros. */
static struct ledger_named_step *find_record(struct recorder *recorder, struct named_steps *steps,
					     const char name[LEDGER_STEP_NAME])
{
	struct ledger_named_step record = { 0 };
	uint32_t ref;

	for (uint32_t i = 0; i < steps->count && i < LEDGER_STEP_NAMES; i++)
		if (memcmp(steps->records[i].name, name, LEDGER_STEP_NAME) == 0)
			return &steps->records[i];
	if (steps->count > LEDGER_STEP_NAMES)
		return &steps->records[LEDGER_STEP_NAMES];
	if (steps->count < LEDGER_STEP_NAMES)
		memcpy(record.name, name, LEDGER_STEP_NAME);
	ref = ledger_add_named_step(&recorder->writer, &record);
	if (!ref)
		return NULL;
	if (!steps->count)
		steps->records = ledger_at(&recorder->writer, ref);
	steps->count++;
	return ledger_at(&recorder->writer, ref);
}

static void end_step(struct ledger_named_step *record, const struct ledger_totals *now)
{
	ledger_begin_change(&record->began);
	ledger_totals_add(&record->sum, &record->start, now);
	record->flags &= ~LEDGER_STEP_OPEN;
	ledger_end_change(&record->began, &record->done);
}

static void begin_step(struct ledger_named_step *record, const struct ledger_totals *now)
{
	ledger_begin_change(&record->began);
	record->count++;
	record->start = *now;
	record->flags |= LEDGER_STEP_OPEN;
	ledger_end_change(&record->began, &record->done);
}

/* Locking: the caller holds the lock of struct steps. Ends the open step, and begins a step with
 * NAME, of which the first LEDGER_STEP_NAME bytes count. NAME NULL or empty: begins none. Returns
 * false if the new step cannot be recorded. Reads all call sites. */
static bool named_steps_change(struct recorder *recorder, struct named_steps *steps,
			       const char *name)
{
	struct ledger_named_step *next = NULL;
	char whole[LEDGER_STEP_NAME] = { 0 };
	struct ledger_totals now;
	struct ledger_view view;

	if (name)
		memcpy(whole, name, strnlen(name, sizeof(whole)));
	if (!steps->open && !whole[0])
		return true;
	if (whole[0])
		next = find_record(recorder, steps, whole);
	if (ledger_view(recorder->writer.base, recorder->writer.mapped_bytes, &view) != LEDGER_OK)
		return false;
	ledger_totals(&view, &now);
	live_bytes_watch_peak(recorder, next ? &next->peak_bytes : NULL);
	if (steps->open)
		end_step(steps->open, &now);
	if (next)
		begin_step(next, &now);
	steps->open = next;
	return next || !whole[0];
}

/* ---- both ---- */

uint32_t steps_mark(struct recorder *recorder, const char *label)
{
	if (recorder_has_ended(recorder))
		return 0;
	HOLD(&recorder->steps->lock);
	return write_step(recorder, label);
}

bool steps_name(struct recorder *recorder, const char *name)
{
	if (recorder_has_ended(recorder))
		return false;
	HOLD(&recorder->steps->lock);
	return named_steps_change(recorder, &recorder->steps->named, name);
}
