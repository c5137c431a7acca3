/* SPDX-License-Identifier: MIT
 *
 * Writes devices, and calls after which the driver uses more memory, into the ledger: a limited
 * number of each. Measures what these calls took. Calls the driver only through struct api_ops,
 * whose functions make no call that a stream capture forbids. Never calls the driver while inside
 * the recorder.
 */
#include "interpose/block/driver_growth.h"

#include <string.h>

#include "interpose/base/config.h"
#include "interpose/dispatch/api.h"
#include "interpose/recorder/live_bytes.h"

static bool was_met(const struct recorder *recorder, int device)
{
	return device < 0 || device >= DRIVER_GROWTH_DEVICES ||
	       atomic_load_explicit(&recorder->devices_met, memory_order_relaxed) >> device & 1;
}

bool device_is_new(int device)
{
	struct recorder *recorder;
	uint64_t bit;

	if (device < 0 || device >= DRIVER_GROWTH_DEVICES)
		return false;
	recorder_touch();
	recorder = recorder_now();
	bit = 1ull << device;
	return recorder && !was_met(recorder, device) &&
	       !(atomic_fetch_or(&recorder->devices_met, bit) & bit);
}

void device_record(const struct device_identity *identity)
{
	struct ledger_device device = {
		.ordinal = identity->ordinal,
		.flags = identity->shares_memory ? LEDGER_DEVICE_SHARES_MEMORY : 0,
	};
	LEAVE_AT_END struct recorder *recorder = recorder_enter();

	if (!recorder)
		return;
	memcpy(device.uuid, identity->uuid, sizeof(device.uuid));
	memcpy(device.instance_uuid, identity->instance, sizeof(device.instance_uuid));
	memcpy(device.bus_id, identity->bus_id, sizeof(device.bus_id) - 1);
	device.name = ledger_add_string(&recorder->writer, identity->name,
					strnlen(identity->name, sizeof(identity->name)));
	ledger_add_device(&recorder->writer, &device);
}

#define BEGUN ((uint64_t)1 << 32)

/* If two such calls run at the same time, each would also measure what the other takes. So a call
 * is measured only if no other one runs at any moment of it. */
void driver_growth_begin(struct driver_growth *ret, enum api api, int device)
{
	const struct api_ops *ops = apis[api];
	struct recorder *recorder = recorder_now();
	uint64_t others, total;

	*ret = (struct driver_growth){ .api = api, .device = device };
	if (!recorder)
		return;
	ret->began_ns = recorder_fine_time(recorder);
	if (thread_self.busy || thread_self.call_frame || !ops->memory_left)
		return;
	if (device < 0)
		ret->device = ops->current_device();
	if (config.pool != OPTION_POOL_OFF)
		return;
	ret->counted = true;
	others = atomic_fetch_add(&recorder->driver_costs->begun_and_running, BEGUN + 1);
	ret->number = (uint32_t)(others / BEGUN) + 1;
	ret->live = live_bytes_total(recorder);
	if (others % BEGUN != 0 || ret->device < 0)
		return;
	ret->is_first = !was_met(recorder, ret->device);
	ret->measured = ops->memory_left(ret->device, &ret->free, &total);
}

void driver_growth_end(struct driver_growth *growth)
{
	struct recorder *recorder = growth->counted ? recorder_now() : NULL;
	uint64_t now = 0, total, others;
	bool alone;

	if (!recorder) {
		growth->measured = false;
		return;
	}
	alone = (growth->measured || growth->is_first) &&
		apis[growth->api]->memory_left(growth->device, &now, &total) &&
		live_bytes_total(recorder) == growth->live;
	others = atomic_fetch_sub(&recorder->driver_costs->begun_and_running, 1);
	alone = alone && (uint32_t)(others / BEGUN) == growth->number;
	growth->free_after = alone && !growth->measured ? now : 0;
	growth->measured = growth->measured && alone;
	growth->bytes = (int64_t)(growth->free - now);
	/* Another process returned memory during the call. */
	growth->measured = growth->measured && growth->bytes >= 0;
}

/* Locking: the caller holds the lock of driver_costs. Returns the record with NEW's call, stack,
 * device and limit. Adds it if needed; returns NULL if there is no room. */
static struct ledger_driver_cost *find_cost(struct recorder *recorder,
					    const struct ledger_driver_cost *new)
{
	struct driver_costs *costs = recorder->driver_costs;
	uint32_t ref;

	for (unsigned int i = 0; i < costs->count; i++) {
		struct ledger_driver_cost *cost = costs->record[i];

		if (cost->api == new->api && cost->stack == new->stack &&
		    cost->device == new->device && cost->limit == new->limit)
			return cost;
	}
	if (costs->count == LEDGER_DRIVER_COSTS_MAX)
		return NULL;
	ref = ledger_add_driver_cost(&recorder->writer, new);
	if (!ref)
		return NULL;
	costs->record[costs->count] = ledger_at(&recorder->writer, ref);
	return costs->record[costs->count++];
}

/* Locking: the caller holds the lock of driver_costs. Writes a record of the call that GROWTH
 * describes, while there are not too many. */
static void write_call(struct recorder *recorder, const struct ledger_driver_cost *cost,
		       const struct driver_growth *growth)
{
	const struct ledger_cost_call call = {
		.began_ns = growth->began_ns, .ended_ns = recorder_fine_time(recorder),
		.bytes = growth->measured ? (uint64_t)growth->bytes : 0,
		.cost = ledger_ref(&recorder->writer, cost),
		.flags = growth->measured ? 0 : LEDGER_COST_FIRST_CONTEXT,
	};

	if ((growth->measured || growth->free_after) &&
	    recorder->driver_costs->calls < LEDGER_COST_CALLS_MAX &&
	    ledger_add_cost_call(&recorder->writer, &call))
		recorder->driver_costs->calls++;
}

static void add_cost(struct recorder *recorder, const struct ledger_driver_cost *key,
		     const struct driver_growth *growth)
{
	struct ledger_driver_cost *cost;

	HOLD(&recorder->driver_costs->lock);
	cost = find_cost(recorder, key);
	if (!cost)
		return;
	shared_store(cost->calls, cost->calls + 1);
	write_call(recorder, cost, growth);
	if (!growth->measured)
		return;
	shared_store(cost->bytes, cost->bytes + growth->bytes);
	shared_publish(cost->measured, cost->measured + 1);
}

static void write_growth(struct recorder *recorder, const struct ledger_driver_cost *key,
			 const struct driver_growth *growth)
{
	struct ledger_driver_growth record = {
		.began_ns = growth->began_ns, .ended_ns = recorder_fine_time(recorder),
		.api = key->api, .stack = key->stack, .device = key->device,
		.free_units = (uint32_t)(growth->free_after / LEDGER_FREE_UNIT),
	};

	if (shared_add(recorder->header->marks, 1) < LEDGER_DRIVER_GROWTHS_MAX)
		ledger_add_driver_growth(&recorder->writer, &record);
}

static void record_call_of(const struct call *call, int device, const struct driver_growth *growth,
			   uint32_t limit, bool as_growth)
{
	struct ledger_driver_cost key = { .device = device, .limit = limit };
	LEAVE_AT_END struct recorder *recorder = recorder_enter();

	if (!recorder)
		return;
	key.api = recorder_name_ref(recorder, call->hook);
	key.stack = stack_here(recorder, call->caller);
	if (as_growth)
		write_growth(recorder, &key, growth);
	add_cost(recorder, &key, growth);
}

void driver_growth_record(const struct call *call, int device, const struct driver_growth *growth,
			  uint32_t limit)
{
	record_call_of(call, device, growth, limit, true);
}

void driver_cost_record(const struct call *call, int device, const struct driver_growth *growth,
			uint32_t limit)
{
	record_call_of(call, device, growth, limit, false);
}
