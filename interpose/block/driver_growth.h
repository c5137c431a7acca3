/* SPDX-License-Identifier: MIT
 *
 * Records what explains the driver memory: the identities of the process's devices, and the calls
 * after which the driver uses more. This code does not measure how much; tools outside the process
 * read that from NVML (tools/).
 */
#ifndef GPULEAK_DRIVER_GROWTH_H
#define GPULEAK_DRIVER_GROWTH_H

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
};

/* Returns true the first time that it is called for DEVICE in this process. Then the caller passes
 * the device to device_record(). */
bool device_is_new(int device);
/* Writes the identity of a device into the ledger. */
void device_record(const struct device_identity *identity);

/* Returns the time for driver_growth_record(), or 0 before the first GPU call. */
uint64_t driver_growth_now(void);

/* Records a call that may make the driver use more memory. It began at BEGAN_NS and has succeeded.
 * DEVICE is -1 if not known. */
void driver_growth_record(const struct call *call, int device, uint64_t began_ns);

#endif
