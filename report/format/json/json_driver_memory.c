/* SPDX-License-Identifier: MIT
 *
 * Writes the peak of driver memory, the growth of the driver's own memory with the calls that
 * explain it, and the samples. Leaves out devices without samples.
 */
#include "report/format/json/json_driver_memory.h"

#include <stdbool.h>

#include "report/format/json/json_helpers.h"
#include "report/model/model.h"
#include "report/model/model_driver_memory.h"

bool json_driver_memory_known(const struct report_process *process)
{
	for (size_t i = 0; i < process->device_count; i++)
		if (process->devices[i].series)
			return true;
	return false;
}

static json_t *call_json(const struct report_mark *mark)
{
	json_t *ret = json_object();

	json_set(&ret, "api", json_text(mark->api));
	json_set(&ret, "began_ns", json_number(mark->began_ns));
	json_set(&ret, "ended_ns", json_number(mark->ended_ns));
	json_set(&ret, "stack", json_stack(mark->stack));
	return ret;
}

static json_t *growth_json(const struct report_device *device)
{
	const struct driver_memory_growth *growth = &device->series->growth;
	json_t *ret;

	/* Growth needs at least two samples. */
	if (!growth->bytes || device->series->taken < 2)
		return json_null();
	ret = json_object();
	json_set(&ret, "bytes", json_number(growth->bytes));
	json_set(&ret, "from_ns", json_number(growth->from_ns));
	json_set(&ret, "to_ns", json_number(growth->to_ns));
	json_set(&ret, "calls",
		 device->growth_unmarked ? json_null() : json_number(device->growth_marks));
	json_set(&ret, "call",
		 device->growth_mark ? call_json(device->growth_mark) : json_null());
	return ret;
}

/* Returns [at_ns, tracked_bytes, held_bytes]. */
static json_t *sample_json(const struct driver_memory_sample *sample)
{
	json_t *ret = json_array();

	json_append(&ret, json_number(sample->at_ns));
	json_append(&ret, json_number(sample->tracked));
	json_append(&ret, json_number(sample->held));
	return ret;
}

static json_t *samples_json(const struct driver_memory_series *series)
{
	json_t *ret = json_array();

	for (uint32_t i = 0; i < series->count && ret; i++)
		json_append(&ret, sample_json(&series->samples[i]));
	return ret;
}

static json_t *device_json(const struct report_device *device)
{
	const struct driver_memory_series *series = device->series;
	const struct driver_memory_sample *highest = &series->highest;
	json_t *ret = json_object();

	json_set(&ret, "device", json_integer(device->ordinal));
	json_set(&ret, "name", json_text(device->name));
	json_set(&ret, "uuid", json_text(device->uuid));
	json_set(&ret, "bus_id", json_text(device->bus_id));
	json_set(&ret, "source",
		 json_string(series->source == DRIVER_MEMORY_NVML_PROCESS ? "nvml-process"
									  : "nvml-device"));
	json_set(&ret, "at_ns", json_number(highest->at_ns));
	json_set(&ret, "tracked_bytes", json_number(highest->tracked));
	json_set(&ret, "managed_bytes", json_number(highest->managed));
	json_set(&ret, "held_bytes", json_number(highest->held));
	json_set(&ret, "driver_bytes", json_number(driver_part(highest)));
	json_set(&ret, "driver_bytes_at_most", json_number(driver_part_at_most(highest)));
	json_set(&ret, "peak_held_bytes", json_number(series->peak_held));
	json_set(&ret, "grown_most", growth_json(device));
	json_set(&ret, "samples_taken", json_number(series->taken));
	json_set(&ret, "last", sample_json(&series->last));
	json_set(&ret, "samples", samples_json(series));
	return ret;
}

json_t *json_driver_memory(const struct report_process *process)
{
	json_t *ret = json_array();

	for (size_t i = 0; i < process->device_count && ret; i++)
		if (process->devices[i].series)
			json_append(&ret, device_json(&process->devices[i]));
	return ret;
}
