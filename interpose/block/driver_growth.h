/* SPDX-License-Identifier: MIT
 *
 * What explains memory that the driver holds for itself: who the process's devices are, and
 * the calls after which the driver holds more. How much that is nobody asks in here: NVML is
 * asked from outside (tools/).
 */
#ifndef GPULEAK_MARKS_H
#define GPULEAK_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/block/blocks.h"

#define MARK_DEVICES 64

/* As the driver names a device. All zero or "": it did not say. */
struct device_identity {
	int ordinal;
	uint8_t uuid[16];
	uint8_t instance[16]; /* of the MIG instance; else the same */
	char name[256];
	char bus_id[16];
};

/* The first time that DEVICE is asked about in this process. */
bool device_is_new(int device);
void device_record(const struct device_identity *identity);

/* The time, for mark_record(); 0 before the first GPU call. */
uint64_t mark_now(void);

/* A call that began at BEGAN_NS has succeeded; DEVICE -1 if unknown. */
void mark_record(const struct site *site, int device, uint64_t began_ns);

#endif
