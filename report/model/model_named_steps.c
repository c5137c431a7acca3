/* SPDX-License-Identifier: MIT
 *
 * Reads the named steps of a ledger, in the order in which the names first appeared. The part of
 * the open step is computed here, so a process that was killed has it, too.
 */
#include "report/model/model_named_steps.h"

#include <string.h>

#include "ledger/totals.h"
#include "report/model/builder.h"

#define RECORDS_MAX (LEDGER_STEP_NAMES + 1)

/* Returns the next record that is complete and has steps, or NULL. */
static const struct ledger_named_step *next_record(const struct builder *b,
						   struct ledger_walk *walk)
{
	const struct ledger_named_step *record;

	do
		record = ledger_next_named_step(b->view, walk);
	while (record && (record->done != record->began || !record->count));
	return record;
}

static struct report_named_step read_record(struct builder *b,
					    const struct ledger_named_step *record,
					    const struct ledger_totals *now)
{
	size_t length = strnlen(record->name, sizeof(record->name));
	struct report_named_step ret = {
		.name = length ? arena_text(b->arena, record->name, length) : NULL,
		.count = record->count,
		.open = record->flags & LEDGER_STEP_OPEN,
		.totals = record->sum,
		.peak_bytes = record->peak_bytes,
	};

	if (ret.open)
		ledger_totals_add(&ret.totals, &record->start, now);
	return ret;
}

void build_named_steps(struct builder *b)
{
	struct report_process *process = b->process;
	const struct ledger_named_step *record;
	struct report_named_step *steps;
	struct ledger_walk walk = { 0 };
	struct ledger_totals now;

	if (!next_record(b, &walk))
		return;
	steps = arena_alloc(b->arena, RECORDS_MAX * sizeof(*steps));
	ledger_totals(b->view, &now);
	walk = (struct ledger_walk){ 0 };
	while (process->named_step_count < RECORDS_MAX && (record = next_record(b, &walk)))
		steps[process->named_step_count++] = read_record(b, record, &now);
	process->named_steps = steps;
}
