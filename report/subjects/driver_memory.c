/* SPDX-License-Identifier: MIT
 *
 * The driver's own memory, which explains the difference between nvidia-smi and the program's
 * allocations: the peak, the largest growth with the calls that explain it, and the samples.
 * Contains only measured values. Marks values of the whole device, and values that managed memory
 * makes uncertain. JSON leaves out devices without samples.
 */
#include "report/subjects/common.h"

#include <inttypes.h>

#include "report/model/model_driver_memory.h"

static void print_seconds(FILE *out, uint64_t ns)
{
	fprintf(out, "%" PRIu64 ".%02" PRIu64 " s", ns / 1000000000, ns / 10000000 % 100);
}

static void print_driver_part(FILE *out, const struct driver_memory_sample *sample)
{
	uint64_t least = driver_part(sample), most = driver_part_at_most(sample);

	/* more memory is tracked than the driver reports, so the driver's own memory is unknown */
	if (!most) {
		fprintf(out, "%s held by the process in all", SIZE(sample->reported));
	} else if (least == most) {
		fprintf(out, "%s held by the driver itself", SIZE(least));
	} else {
		fprintf(out, "%s to %s held by the driver itself", SIZE(least), SIZE(most));
	}
	if (most)
		fputs(" (contexts, modules, local memory, unused pool memory)", out);
}

static void print_growth(FILE *out, const struct report_device *device, bool whole)
{
	const struct driver_memory_growth *growth = &device->series->growth;

	/* The growth is a difference of two samples. */
	if (!growth->bytes || device->series->taken < 2)
		return;
	fprintf(out, "; that grew most (+%s) between ", SIZE(growth->bytes));
	print_seconds(out, growth->from_ns);
	fputs(" and ", out);
	print_seconds(out, growth->to_ns);
	if (device->growth_calls_lost)
		fputs(", but the ledger had no room for the calls of that time", out);
	if (!device->growth_call)
		return;
	eprintf(out, ", where %s was called at ", device->growth_call->site->api);
	describe_place(out, device->growth_call->site->stack, whole);
	if (device->growth_call_count > 1)
		fprintf(out, ", the first of %s such calls", NUMBER(device->growth_call_count));
}

static void print_device(FILE *out, const struct report_device *device, bool whole)
{
	const struct driver_memory_sample *sample = &device->series->highest;

	fprintf(out, "gpuleak: device %d", device->ordinal);
	if (device->name)
		eprintf(out, " (%s)", device->name);
	fprintf(out, ": %s tracked, ", SIZE(sample->tracked));
	print_driver_part(out, sample);
	fputs(device->series->taken > 1 ? " at its peak, at " : " at ", out);
	print_seconds(out, sample->at_ns);
	print_growth(out, device, whole);
	if (sample->managed)
		fprintf(out, "; %s of what is tracked is managed memory, which the driver counts "
			"only where it lies on the device", SIZE(sample->managed));
	if (device->series->source == DRIVER_MEMORY_NVML_DEVICE)
		fputs("; the driver reports no figure for this process: shown is the increase "
		      "since the start on the whole device, other processes included", out);
	fputc('\n', out);
}

/* Prints "context 523.0 MiB in 1 of 2 calls" for the costs from *AT on that have the same cause
 * and device, and moves *AT behind them. */
static void print_cause(FILE *out, const struct report_process *process, size_t *at)
{
	const struct report_driver_cost *first = &process->driver_costs[*at], *cost;
	uint64_t calls = 0, measured = 0, ended = 0;
	int64_t bytes = 0;

	for (; *at < process->driver_cost_count; ++*at) {
		cost = &process->driver_costs[*at];
		if (cost->site->device != first->site->device ||
		    strcmp(cost->cause, first->cause) != 0)
			break;
		calls = add_bounded(calls, cost->calls);
		measured = add_bounded(measured, cost->measured);
		ended = add_bounded(ended, cost->ended);
		if (__builtin_add_overflow(bytes, cost->bytes, &bytes))
			bytes = 0;
	}
	fprintf(out, "%s ", first->cause);
	if (measured)
		fprintf(out, "%s%s in ", bytes < 0 ? "-" : "",
			SIZE(bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes));
	else
		fputs("not measured in ", out);
	if (measured && measured < calls)
		fprintf(out, "%s of ", NUMBER(measured));
	fprintf(out, "%s call%s", NUMBER(calls), plural(calls));
	if (ended)
		fprintf(out, " (%s ended since)", NUMBER(ended));
}

/* Prints how much memory the driver took on device ORDINAL for each cause, and how much of the
 * driver's own memory the causes do not explain. SERIES NULL: the driver's own memory is
 * unknown. */
static void print_causes(FILE *out, const struct report_process *process, int ordinal,
			 const struct driver_memory_series *series)
{
	uint64_t explained = driver_memory_explained(process, ordinal);
	uint64_t driver = series ? driver_part(&series->highest) : 0;
	const char *between = "";
	size_t i = 0;

	while (i < process->driver_cost_count && process->driver_costs[i].site->device != ordinal)
		i++;
	if (i == process->driver_cost_count)
		return;
	fprintf(out, "gpuleak: device %d: the driver took memory, measured call by call, for: ",
		ordinal);
	while (i < process->driver_cost_count && process->driver_costs[i].site->device == ordinal) {
		fputs(between, out);
		print_cause(out, process, &i);
		between = "; ";
	}
	if (driver && explained <= driver)
		fprintf(out, "; not explained: %s", SIZE(driver - explained));
	else if (driver && !driver_memory_is_behind(process, ordinal, series))
		fprintf(out, "; the sum is %s more than NVML counts%s",
			SIZE(explained - driver),
			others_part(&series->highest)
				? ": other processes use the device, and each call is measured on "
				  "the whole device"
				: "");
	fputc('\n', out);
}

static void print_why(FILE *out, const struct report_process *process)
{
	eprintf(out, "gpuleak: %s (pid %d): the driver's own memory is unknown: %s\n",
		process->program, process->pid, process->driver_memory_why);
}

static void print_details(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;
	bool known = false, verbose = view->verbose;

	if (!view->is_wrong && !verbose)
		return;
	for (size_t i = 0; i < process->device_count; i++) {
		if (!process->devices[i].series)
			continue;
		print_device(out, &process->devices[i], view->verbose);
		print_causes(out, process, process->devices[i].ordinal,
			     process->devices[i].series);
		known = true;
	}
	for (size_t i = 0; i < process->device_count && verbose; i++)
		if (!process->devices[i].series)
			print_causes(out, process, process->devices[i].ordinal, NULL);
	if (!known && verbose && process->driver_memory_why)
		print_why(out, process);
}

static json_t *call_json(const struct report_driver_call *call)
{
	return JSON_OBJECT(
		{ "api", json_text(call->site->api) },
		{ "began_ns", json_number(call->began_ns) },
		{ "ended_ns", json_number(call->ended_ns) },
		{ "stack", json_stack(call->site->stack) });
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

	return JSON_ARRAY(json_number(sample->at_ns), json_number(sample->tracked),
			  json_number(sample->reported));
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
		{ "api", json_text(cost->site->api) },
		{ "device", json_integer(cost->site->device) },
		{ "calls", json_number(cost->calls) },
		{ "measured_calls", json_number(cost->measured) },
		{ "bytes", cost->measured ? json_integer(cost->bytes) : json_null() },
		{ "ended", json_number(cost->ended) },
		{ "stack", json_stack(cost->site->stack) });
}

static void add_json(json_t *object, const struct subject_view *view)
{
	const struct report_process *process = view->process;
	json_t *devices = json_array();

	for (size_t i = 0; i < process->device_count; i++)
		if (process->devices[i].series)
			json_array_append_new(devices, device_json(process, &process->devices[i]));
	json_set(object, "devices", JSON_IF(json_array_size(devices), json_incref(devices)));
	json_decref(devices);
	json_set(object, "driver_costs", JSON_LIST_IF_ANY(process->driver_costs,
							  process->driver_cost_count, cost_json));
}

const struct subject subject_driver_memory = {
	.build = build_driver_memory,
	.chunks = CHUNK_BIT(DEVICES) | CHUNK_BIT(DRIVER_COSTS),
	.details = print_details, .json = add_json,
};
