/* SPDX-License-Identifier: MIT
 *
 * Writes devices and marks into the ledger, a limited number of each. Must not call the driver;
 * cuda.c does that before it calls this.
 */
#include "interpose/block/driver_growth.h"

#include <string.h>
#include <time.h>

#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "ledger/clock.h"
#include "ledger/shared.h"

bool device_is_new(int device)
{
	struct recorder *recorder;
	uint64_t bit;

	if (device < 0 || device >= DRIVER_GROWTH_DEVICES)
		return false;
	recorder_touch();
	recorder = recorder_now();
	bit = 1ull << device;
	return recorder &&
	       !(atomic_load_explicit(&recorder->devices_met, memory_order_relaxed) & bit) &&
	       !(atomic_fetch_or(&recorder->devices_met, bit) & bit);
}

void device_record(const struct device_identity *identity)
{
	struct ledger_device device = { .ordinal = identity->ordinal };
	struct recorder *recorder = recorder_enter();

	if (!recorder)
		return;
	memcpy(device.uuid, identity->uuid, sizeof(device.uuid));
	memcpy(device.instance_uuid, identity->instance, sizeof(device.instance_uuid));
	memcpy(device.bus_id, identity->bus_id, sizeof(device.bus_id) - 1);
	device.name = ledger_add_string(&recorder->writer, identity->name,
					strnlen(identity->name, sizeof(identity->name)));
	ledger_add_device(&recorder->writer, &device);
	recorder_leave();
}

/* Returns ns since the ledger's start. Does not use the coarse clock, which may be some ms late: an
 * NVML sample that another process took after the call would then seem to be before it. */
static uint64_t fine_time(const struct recorder *recorder)
{
	uint64_t ns = clock_ns(CLOCK_MONOTONIC);

	return ns > recorder->header->start_mono_ns ? ns - recorder->header->start_mono_ns : 0;
}

uint64_t driver_growth_now(void)
{
	struct recorder *recorder = recorder_now();

	return recorder ? fine_time(recorder) : 0;
}

static void write_growth(struct recorder *recorder, const struct call *call, int device,
			 uint64_t began_ns)
{
	struct ledger_driver_growth growth = {
		.began_ns = began_ns,
		.ended_ns = fine_time(recorder),
		.api = recorder_name_ref(recorder, call->hook),
		.device = device,
	};

	growth.stack = stack_here(recorder, call->caller);
	ledger_add_driver_growth(&recorder->writer, &growth);
}

void driver_growth_record(const struct call *call, int device, uint64_t began_ns)
{
	struct recorder *recorder = recorder_enter();

	if (!recorder)
		return;
	if (atomic_fetch_add_explicit(&SHARED(recorder->header->marks), 1, memory_order_relaxed) <
	    LEDGER_DRIVER_GROWTHS_MAX)
		write_growth(recorder, call, device, began_ns);
	recorder_leave();
}
