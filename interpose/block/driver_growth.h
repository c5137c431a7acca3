/* SPDX-License-Identifier: MIT
 *
 * Records what explains the driver memory: the identities of the process's devices, and the calls
 * after which the driver uses more. Measures what one call took as the difference of two answers of
 * the driver. The total of a process is not measured here: the command reads that from NVML
 * (tools/nvml/).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "interpose/block/blocks.h"

#define DRIVER_GROWTH_DEVICES 64

/* A device as the driver reports it. Fields that the driver did not report are zero or "". */
struct device_identity {
	int ordinal;
	uint8_t uuid[16];
	uint8_t instance[16]; /* UUID of the MIG instance; without MIG the same as uuid */
	char name[256];
	char bus_id[16];
	bool shares_memory; /* with the CPU */
};

/* Returns true the first time that it is called for DEVICE in this process. Then the caller passes
 * the device to device_record(). */
bool device_is_new(int device);
/* Writes the identity of a device into the ledger. */
void device_record(const struct device_identity *identity);

/* A call that may make the driver use more memory. All zero: it is not measured. */
struct driver_growth {
	uint64_t began_ns;
	enum api api;
	int device;
	bool counted;  /* in begun_and_running, see struct driver_costs */
	bool is_first; /* no earlier call of the process has used the device */
	/* before driver_growth_end(): it can be measured; afterwards: `bytes` is valid */
	bool measured;
	uint32_t number; /* this call's number among those that were counted, from 1 */
	int64_t live;  /* bytes that the process had allocated before the call */
	uint64_t free; /* free bytes of the device before the call */
	int64_t bytes; /* that the driver took during the call */
	/* Of an unmeasured first call: bytes of the device that are free after it; 0 unknown. */
	uint64_t free_after;
};

/* Call these before and after the driver's call of API on DEVICE (-1: the current one). That call
 * may fail. They make no driver call that a stream capture forbids, and none if no context is
 * current. If the call created the first context, that context must be current when
 * driver_growth_end() is called. */
void driver_growth_begin(struct driver_growth *ret, enum api api, int device);
void driver_growth_end(struct driver_growth *growth);

/* Records that CALL has succeeded, after driver_growth_end(). DEVICE is -1 if not known. LIMIT: see
 * struct ledger_driver_cost. */
void driver_growth_record(const struct call *call, int device, const struct driver_growth *growth,
			  uint32_t limit);
/* The same for a call that is too frequent for a record of its own: only adds to the sums of its
 * call site. */
void driver_cost_record(const struct call *call, int device, const struct driver_growth *growth,
			uint32_t limit);

/* Part of the recorder: the sums of call sites. */
struct driver_costs {
	/* Number of calls that began << 32 | number of those that have not ended. One word, so that
	 * both change at one moment. */
	_Atomic uint64_t begun_and_running;
	struct lock lock; /* guards the other fields */
	unsigned int count;
	unsigned int calls; /* records of single calls */
	struct ledger_driver_cost *record[LEDGER_DRIVER_COSTS_MAX];
};
