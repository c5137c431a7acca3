/* SPDX-License-Identifier: MIT
 *
 * Writes the peak of driver memory, the growth of the driver's own memory with the calls that
 * explain it, and the samples. Leaves out devices without samples.
 */
#include "report/format/json/json_helpers.h"
#include "report/format/json/json_sections.h"
#include "report/model/model.h"
#include "report/model/model_driver_memory.h"

static json_t *call_json(const struct report_driver_call *call)
{
	return JSON_OBJECT(
		{ "api", json_text(call->api) },
		{ "began_ns", json_number(call->began_ns) },
		{ "ended_ns", json_number(call->ended_ns) },
		{ "stack", json_stack(call->stack) });
}

static json_t *growth_json(const struct report_device *device)
{
	const struct driver_memory_growth *growth = &device->series->growth;

	/* Growth needs at least two samples. */
	if (!growth->bytes || device->series->taken < 2)
		return json_null();
	return JSON_OBJECT(
		{ "bytes", json_number(growth->bytes) },
		{ "from_ns", json_number(growth->from_ns) },
		{ "to_ns", json_number(growth->to_ns) },
		{ "calls", device->growth_calls_lost ? json_null()
						   : json_number(device->growth_call_count) },
		{ "call", device->growth_call ? call_json(device->growth_call) : json_null() });
}

/* Returns [at_ns, tracked_bytes, held_bytes]. */
static json_t *sample_json(const void *item)
{
	const struct driver_memory_sample *sample = item;
	json_t *ret = json_array();

	json_append(&ret, json_number(sample->at_ns));
	json_append(&ret, json_number(sample->tracked));
	json_append(&ret, json_number(sample->reported));
	return ret;
}

static json_t *device_json(const struct report_process *process, const struct report_device *device)
{
	uint64_t explained = driver_memory_explained(process, device->ordinal);
	uint64_t driver = driver_part(&device->series->highest);
	const struct driver_memory_series *series = device->series;
	const struct driver_memory_sample *highest = &series->highest;
	bool of_process = series->source == DRIVER_MEMORY_NVML_PROCESS;
	bool is_behind = explained > driver &&
			 driver_memory_is_behind(process, device->ordinal, series);

	return JSON_OBJECT(
		{ "device", json_integer(device->ordinal) },
		{ "name", json_text(device->name) },
		{ "uuid", json_text(device->uuid) },
		{ "bus_id", json_text(device->bus_id) },
		{ "shares_memory", json_boolean(device->shares_memory) },
		{ "source", json_string(of_process ? "nvml-process" : "nvml-device") },
		{ "at_ns", json_number(highest->at_ns) },
		{ "tracked_bytes", json_number(highest->tracked) },
		{ "managed_bytes", json_number(highest->managed) },
		{ "held_bytes", json_number(highest->reported) },
		{ "driver_bytes", json_number(driver_part(highest)) },
		{ "driver_bytes_at_most", json_number(driver_part_at_most(highest)) },
		{ "explained_bytes", json_number(explained) },
		{ "unexplained_bytes", is_behind ? json_null()
						 : json_integer((int64_t)(driver - explained)) },
		{ "peak_held_bytes", json_number(series->peak_reported) },
		{ "grown_most", growth_json(device) },
		{ "samples_taken", json_number(series->taken) },
		{ "last", sample_json(&series->last) },
		{ "samples", JSON_LIST(series->samples, series->count, sample_json) });
}

static json_t *cost_json(const void *item)
{
	const struct report_driver_cost *cost = item;

	return JSON_OBJECT(
		{ "cause", json_string(cost->cause) },
		{ "api", json_text(cost->api) },
		{ "device", json_integer(cost->device) },
		{ "calls", json_number(cost->calls) },
		{ "measured_calls", json_number(cost->measured) },
		{ "bytes", cost->measured ? json_integer(cost->bytes) : json_null() },
		{ "ended", json_number(cost->ended) },
		{ "stack", json_stack(cost->stack) });
}

json_t *json_driver_costs(const struct report_process *process)
{
	return process->driver_cost_count
		       ? JSON_LIST(process->driver_costs, process->driver_cost_count, cost_json)
		       : json_left_out();
}

json_t *json_driver_memory(const struct report_process *process)
{
	json_t *ret = json_left_out();

	for (size_t i = 0; i < process->device_count && ret; i++) {
		if (!process->devices[i].series)
			continue;
		if (ret == json_left_out())
			ret = json_array();
		json_append(&ret, device_json(process, &process->devices[i]));
	}
	return ret;
}
