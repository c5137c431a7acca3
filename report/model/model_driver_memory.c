/* SPDX-License-Identifier: MIT
 *
 * Reads devices, and calls that increase the driver's own memory. A call explains a growth if it
 * was on the same device and ran between the two samples, at least in part.
 */
#include "report/model/model_driver_memory.h"

#include <errno.h>
#include <string.h>

#include "report/model/builder.h"

static const char no_bytes[16];

static const char *uuid_text(struct report_arena *arena, const uint8_t u[16])
{
	return arena_printf(arena,
			    "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
			    "%02x%02x%02x%02x%02x%02x",
			    u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10],
			    u[11], u[12], u[13], u[14], u[15]);
}

static int read_device(struct builder *b, const struct ledger_device *record,
		       struct report_device *ret)
{
	int r = build_text(b, record->name, &ret->name);

	if (r < 0)
		return r;
	ret->ordinal = record->ordinal;
	if (ret->name && !*ret->name)
		ret->name = NULL;
	if (memcmp(record->uuid, no_bytes, sizeof(record->uuid)) != 0) {
		ret->uuid = uuid_text(b->arena, record->uuid);
		if (!ret->uuid)
			return -ENOMEM;
	}
	if (record->bus_id[0]) {
		ret->bus_id = arena_text(b->arena, record->bus_id,
					 strnlen(record->bus_id, sizeof(record->bus_id)));
		if (!ret->bus_id)
			return -ENOMEM;
	}
	return 0;
}

static struct report_device *find_device(const struct report_process *process, int ordinal)
{
	for (size_t i = 0; i < process->device_count; i++)
		if (process->devices[i].ordinal == ordinal)
			return &process->devices[i];
	return NULL;
}

/* Inserts DEVICE into the list, which is ordered by ordinal. */
static void sort_in(struct report_process *process, const struct report_device *device)
{
	size_t at = process->device_count++;

	for (; at > 0 && process->devices[at - 1].ordinal > device->ordinal; at--)
		process->devices[at] = process->devices[at - 1];
	process->devices[at] = *device;
}

static int read_devices(struct builder *b)
{
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_device *record;
	int r = 0;

	process->devices = arena_alloc(b->arena, DRIVER_MEMORY_DEVICES * sizeof(*process->devices));
	if (!process->devices)
		return -ENOMEM;
	while (r == 0 && process->device_count < DRIVER_MEMORY_DEVICES &&
	       (record = ledger_next(b->view, &walk, LEDGER_CHUNK_HELD, sizeof(*record)))) {
		struct report_device device = { 0 };

		if (record->ordinal < 0 || record->ordinal >= DRIVER_MEMORY_DEVICES ||
		    find_device(process, record->ordinal))
			continue;
		r = read_device(b, record, &device);
		if (r == 0)
			sort_in(process, &device);
	}
	return r;
}

static int read_call(struct builder *b, const struct ledger_driver_growth *record,
		     struct report_driver_call *ret)
{
	int r = build_text(b, record->api, &ret->api);

	if (r == 0)
		r = build_stack(b, record->stack, &ret->stack);
	if (!ret->api)
		ret->api = "unknown";
	ret->device = record->device;
	ret->began_ns = record->began_ns;
	ret->ended_ns = record->ended_ns;
	return r;
}

static int read_calls(struct builder *b)
{
	struct report_process *process = b->process;
	struct ledger_walk walk = { 0 };
	const struct ledger_driver_growth *record;
	int r = 0;

	process->driver_calls =
		arena_alloc(b->arena, LEDGER_DRIVER_GROWTHS_MAX * sizeof(*process->driver_calls));
	if (!process->driver_calls)
		return -ENOMEM;
	while (r == 0 && process->driver_call_count < LEDGER_DRIVER_GROWTHS_MAX &&
	       (record = ledger_next(b->view, &walk, LEDGER_CHUNK_DRIVER_GROWTHS, sizeof(*record))))
		r = read_call(b, record, &process->driver_calls[process->driver_call_count++]);
	return r;
}

int build_driver_memory(struct builder *b)
{
	int r = read_devices(b);

	b->process->driver_calls_made = ledger_header(b->view)->marks;
	return r < 0 || !b->process->device_count ? r : read_calls(b);
}

static void attribute_growth(const struct report_process *process, struct report_device *device)
{
	const struct driver_memory_growth *growth = &device->series->growth;

	uint64_t last_ns = 0;

	device->growth_call = NULL;
	device->growth_call_count = 0;
	for (size_t i = 0; growth->bytes && i < process->driver_call_count; i++) {
		const struct report_driver_call *call = &process->driver_calls[i];

		last_ns = call->began_ns > last_ns ? call->began_ns : last_ns;
		if (call->began_ns > growth->to_ns || call->ended_ns < growth->from_ns ||
		    (call->device >= 0 && call->device != device->ordinal))
			continue;
		device->growth_call_count++;
		if (!device->growth_call || call->began_ns < device->growth_call->began_ns)
			device->growth_call = call;
	}
	device->growth_calls_lost = growth->bytes && !device->growth_call &&
				  process->driver_calls_made > process->driver_call_count &&
				  growth->to_ns > last_ns;
}

int report_process_set_driver_memory(struct report_process *process, int ordinal,
				     const struct driver_memory_series *series)
{
	struct report_device *device = find_device(process, ordinal);
	struct driver_memory_series *copy;

	if (!device || !series->taken || series->count > DRIVER_MEMORY_SAMPLES)
		return 0;
	copy = arena_alloc(process->arena, sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	*copy = *series;
	device->series = copy;
	attribute_growth(process, device);
	return 0;
}
