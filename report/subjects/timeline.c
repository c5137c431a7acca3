/* SPDX-License-Identifier: MIT
 *
 * Live bytes over time. Only JSON has them.
 */
#include "report/subjects/subject.h"

#include "report/describe/json_helpers.h"
#include "report/model/model.h"
#include "report/describe/json_values.h"

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

	if (!total->count)
		return;
	json_set(object, "timeline", JSON_OBJECT(
		{ "start_real_ns", json_number(view->process->start_real_ns) },
		{ "end_ns", json_number(timeline->end_ns) },
		{ "peak_ns", json_number(timeline->peak_ns) },
		{ "live", JSON_LIST(total->samples, total->count, json_sample) },
		{ "parts", JSON_LIST(timeline->parts, timeline->part_count, series_json) }));
}

const struct subject subject_timeline = { .json = add_json };
