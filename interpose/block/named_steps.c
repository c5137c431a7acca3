/* SPDX-License-Identifier: MIT
 *
 * Writes the records of named steps: what the process allocated and freed between two moments, and
 * its peak. All steps with one name are one record of the ledger. Must not be called by a signal
 * handler, and must not block threads that allocate.
 */
#include "interpose/block/steps.h"

#include <string.h>

#include "interpose/recorder/recorder.h"
#include "interpose/recorder/live_bytes.h"
#include "ledger/totals.h"

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

bool named_steps_change(struct recorder *recorder, struct named_steps *steps, const char *name)
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
