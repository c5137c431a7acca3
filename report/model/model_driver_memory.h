/* SPDX-License-Identifier: MIT
 *
 * A process's devices, what was held on them, and the calls that may be why. Built from the
 * ledger; the samples come from whoever asked while the process lived.
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
	const struct driver_memory_series *series; /* NULL: nobody asked, or there was no answer */
	/* The calls during the growth: the first of them, and how many there were. */
	const struct report_mark *growth_mark;
	size_t growth_marks;
	int growth_unmarked; /* by then there was no room for calls any more */
};

/* Hands the process a copy of what was sampled on device ORDINAL, and finds the calls that
 * explain its growth. Nothing if the ledger knows no such device or there is no sample.
 * 0 or -ENOMEM. */
int report_process_set_driver_memory(struct report_process *process, int ordinal,
				     const struct driver_memory_series *series);

#endif
