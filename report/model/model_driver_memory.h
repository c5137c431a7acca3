/* SPDX-License-Identifier: MIT
 *
 * A process's devices, their memory samples, and the calls that may explain growth. Devices and
 * calls come from the ledger; the samples come from the command, which took them while the
 * process ran.
 */
#ifndef GPULEAK_REPORT_MODEL_DRIVER_MEMORY_H
#define GPULEAK_REPORT_MODEL_DRIVER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "report/model/driver_memory_series.h"

struct report_process;
struct report_stack;

/* A call after which the driver holds more. */
struct report_mark {
	const char *api;
	const struct report_stack *stack;
	int device; /* -1 unknown */
	uint64_t began_ns, ended_ns;
};

struct report_device {
	int ordinal;
	const char *name;   /* NULL unknown, like the next two */
	const char *uuid;   /* "GPU-01234567-89ab-cdef-0123-456789abcdef" */
	const char *bus_id; /* "0000:01:00.0" */
	const struct driver_memory_series *series; /* NULL: no sample was taken */
	/* The calls during the growth: the first of them, and how many there were. */
	const struct report_mark *growth_mark;
	size_t growth_marks;
	int growth_unmarked; /* by then there was no room for calls any more */
};

/* Copies the samples of device ORDINAL to the process and finds the calls that explain their
 * growth. Does nothing if the ledger does not have the device or there is no sample. 0 or
 * -ENOMEM. */
int report_process_set_driver_memory(struct report_process *process, int ordinal,
				     const struct driver_memory_series *series);

#endif
