/* SPDX-License-Identifier: MIT
 *
 * Writes live bytes over time: the total, and each kind of memory on each device.
 */
#include "report/format/json/json_timeline.h"

#include "report/format/json/json_helpers.h"
#include "report/model/model.h"

static json_t *part_json(const struct report_series *part)
{
	json_t *ret = json_object();

	json_set(&ret, "kind", json_text(part->kind));
	json_set(&ret, "device", json_integer(part->device));
	json_set(&ret, "live", json_samples(part->samples, part->count));
	return ret;
}

json_t *json_timeline(const struct report_process *process)
{
	const struct report_timeline *timeline = &process->timeline;
	json_t *ret = json_object(), *parts = json_array();

	for (size_t i = 0; i < timeline->part_count && parts; i++)
		json_append(&parts, part_json(&timeline->parts[i]));
	json_set(&ret, "start_real_ns", json_number(process->start_real_ns));
	json_set(&ret, "end_ns", json_number(timeline->end_ns));
	json_set(&ret, "peak_ns", json_number(timeline->peak_ns));
	json_set(&ret, "live", json_samples(timeline->total.samples, timeline->total.count));
	json_set(&ret, "parts", parts);
	return ret;
}
