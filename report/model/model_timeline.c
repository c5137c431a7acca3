/* SPDX-License-Identifier: MIT
 *
 * Reads the ledger's samples of live bytes: the total, and by kind of memory and device. Does
 * not interpolate. Also computes the age of a block.
 */
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "report/load/process_alive.h"
#include "report/load/load.h"
#include "report/model/builder.h"
#include "ledger/clock.h"
#include "ledger/shared.h"

struct report_sample *build_samples(struct builder *b, enum ledger_chunk_type type,
				    size_t *ret_count)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_sample *sample;
	struct report_sample *ret;
	size_t count = 0, at = 0;

	while (ledger_next(b->view, &walk, type, sizeof(*sample)))
		count++;
	ret = arena_alloc(b->arena, count * sizeof(*ret));
	walk = (struct ledger_walk){ 0 };
	while (at < count && (sample = ledger_next(b->view, &walk, type, sizeof(*sample))))
		ret[at++] = (struct report_sample){ sample->time_ns, sample->live_bytes };
	*ret_count = at;
	return ret;
}

/* Reads one column of all samples. */
static struct report_series build_part(struct builder *b, const struct ledger_parts *parts,
				       uint32_t column, size_t count)
{
	struct report_series ret = {
		.kind = build_text(b, parts->column[column].kind),
		.device = parts->column[column].device,
		.samples = arena_alloc(b->arena, count * sizeof(*ret.samples)),
	};
	struct ledger_walk walk = { 0 };
	const struct ledger_moment *moment;

	if (!ret.kind)
		ret.kind = "other";
	/* skip the record with the columns */
	ledger_next(b->view, &walk, LEDGER_CHUNK_PARTS, sizeof(*moment));
	while (ret.count < count &&
	       (moment = ledger_next(b->view, &walk, LEDGER_CHUNK_PARTS, sizeof(*moment))))
		ret.samples[ret.count++] = (struct report_sample){
			moment->time_ns, moment->live_bytes[column] };
	return ret;
}

static void build_parts(struct builder *b)
{
	struct report_timeline *timeline = &b->process->timeline;
	struct ledger_walk walk = { 0 };
	const struct ledger_parts *parts =
		ledger_next(b->view, &walk, LEDGER_CHUNK_PARTS, sizeof(*parts));
	uint32_t columns =
		parts ? atomic_load_explicit(&SHARED(parts->columns), memory_order_acquire) : 0;
	size_t count = 0;

	if (columns > LEDGER_COLUMNS)
		columns = 0;
	while (ledger_next(b->view, &walk, LEDGER_CHUNK_PARTS, sizeof(struct ledger_moment)))
		count++;
	timeline->parts = arena_alloc(b->arena, (columns + 1) * sizeof(*timeline->parts));
	for (uint32_t i = 0; count && i < columns; i++)
		timeline->parts[timeline->part_count++] = build_part(b, parts, i, count);
}

void build_timeline(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);
	struct report_timeline *timeline = &b->process->timeline;

	if (header->ended != LEDGER_RUNNING && header->end_mono_ns > header->start_mono_ns)
		timeline->end_ns = header->end_mono_ns - header->start_mono_ns;
	timeline->peak_ns = header->peak_mono_ns;
	timeline->total.device = -1;
	timeline->total.samples =
		build_samples(b, LEDGER_CHUNK_TIMELINE, &timeline->total.count);
	build_parts(b);
}

/* ---- the age of a block; of an ended process, at its end ---- */

/* Returns the latest time in the ledger, for a process whose end was not recorded. */
static uint64_t last_time(const struct ledger_view *view)
{
	struct ledger_walk walk = { 0 }, samples = { 0 };
	const struct ledger_block *block;
	const struct ledger_sample *sample;
	uint64_t last = 0;

	while ((block = ledger_next_live(view, &walk)))
		if (block->time_ns > last)
			last = block->time_ns;
	while ((sample = ledger_next_live_sample(view, &samples)))
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

void build_age(struct builder *b)
{
	uint64_t older_ns = b->ledger->older_ns, now;

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
