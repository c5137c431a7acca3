/* SPDX-License-Identifier: MIT
 *
 * Live bytes over time: the total, and by kind of memory and device. Only JSON has them. Does not
 * interpolate.
 */
#include "report/subjects/subject.h"

#include "ledger/shared.h"
#include "report/describe/json_helpers.h"
#include "report/describe/json_values.h"
#include "report/model/builder.h"
#include "report/model/model.h"

/* Reads one column of all samples. */
static struct report_series build_part(struct builder *b, const struct ledger_parts *parts,
				       uint32_t column)
{
	struct report_series ret = {
		.kind = build_text(b, parts->column[column].kind),
		.device = parts->column[column].device,
	};
	struct ledger_walk walk = { 0 };
	const struct ledger_moment *moment;

	if (!ret.kind)
		ret.kind = "other";
	/* skip the record with the columns */
	ledger_next(b->view, &walk, LEDGER_CHUNK_PARTS, sizeof(*moment));
	while ((moment = ledger_next(b->view, &walk, LEDGER_CHUNK_PARTS, sizeof(*moment))))
		*ARENA_ADD(b->arena, ret.samples, ret.count) = (struct report_sample){
			moment->time_ns, moment->live_bytes[column] };
	return ret;
}

static void build_parts(struct builder *b)
{
	struct report_timeline *timeline = &b->process->timeline;
	struct ledger_walk walk = { 0 };
	const struct ledger_parts *parts =
		ledger_next(b->view, &walk, LEDGER_CHUNK_PARTS, sizeof(*parts));
	uint32_t columns = parts ? shared_load_acquire(parts->columns) : 0;

	if (columns > LEDGER_COLUMNS ||
	    !ledger_next(b->view, &walk, LEDGER_CHUNK_PARTS, sizeof(struct ledger_moment)))
		return;
	for (uint32_t i = 0; i < columns; i++)
		*ARENA_ADD(b->arena, timeline->parts, timeline->part_count) =
			build_part(b, parts, i);
}

static void build(struct builder *b)
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

static json_t *series_json(const void *item)
{
	const struct report_series *series = item;

	return JSON_OBJECT(
		{ "kind", json_text(series->kind) },
		{ "device", json_integer(series->device) },
		{ "live", JSON_LIST(series->samples, series->count, json_sample) });
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_timeline *timeline = &view->process->timeline;
	const struct report_series *total = &timeline->total;

	json_set(object, "timeline", JSON_OBJECT(
		{ "start_real_ns", json_number(view->process->start_real_ns) },
		{ "end_ns", json_number(timeline->end_ns) },
		{ "peak_ns", json_number(timeline->peak_ns) },
		{ "live", JSON_LIST(total->samples, total->count, json_sample) },
		{ "parts", JSON_LIST(timeline->parts, timeline->part_count, series_json) }));
}

const struct subject subject_timeline = { .build = build, .only_if = PART(timeline.total.count),
					  .json = add_json };
