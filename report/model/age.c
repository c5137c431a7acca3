/* SPDX-License-Identifier: MIT
 *
 * Computes the age of a block. For an ended process the age is that at its end.
 */
#include <stdbool.h>
#include <time.h>

#include "report/load/process_alive.h"
#include "report/model/builder.h"
#include "report/load/load.h"
#include "ledger/clock.h"

/* Returns the latest time in the ledger, for a process whose end was not recorded. */
static uint64_t last_time(const struct ledger_view *view)
{
	struct ledger_walk walk = { 0 }, samples = { 0 };
	const struct ledger_block *block;
	const struct ledger_sample *sample;
	uint64_t last = 0;

	while ((block = ledger_next(view, &walk, LEDGER_CHUNK_BLOCKS, sizeof(*block))))
		if (LEDGER_BLOCK_STATE(block->state) == LEDGER_BLOCK_LIVE && block->time_ns > last)
			last = block->time_ns;
	while ((sample = ledger_next(view, &samples, LEDGER_CHUNK_TIMELINE, sizeof(*sample))))
		if (sample->time_ns > last)
			last = sample->time_ns;
	return last;
}

static uint64_t time_now(const struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	uint64_t now = header->end_mono_ns;

	if (header->ended == LEDGER_RUNNING) {
		if (!process_alive(header->pid, header->start_ticks, b->process->host))
			return last_time(b->view);
		now = clock_ns(CLOCK_MONOTONIC);
	}
	return now > header->start_mono_ns ? now - header->start_mono_ns : 0;
}

void build_age(struct builder *b, uint64_t older_ns)
{
	uint64_t now;

	b->born_before_ns = UINT64_MAX;
	if (!older_ns)
		return;
	now = time_now(b);
	b->none_old = now < older_ns;
	b->born_before_ns = b->none_old ? 0 : now - older_ns;
}

bool build_is_young(const struct builder *b, const struct ledger_block *block)
{
	return b->none_old || block->time_ns > b->born_before_ns;
}
