/* SPDX-License-Identifier: MIT
 *
 * The devices of a process, their memory samples, and the calls that may explain growth of the
 * driver's own memory. Devices and calls come from the ledger. The command took the samples
 * while the process ran. Times are in nanoseconds since the ledger's start.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/model/driver_memory_series.h"

struct report_process;

/* A call after which the driver itself uses more device memory. */
struct report_driver_call {
	const struct report_site *site; /* without a kind */
	uint64_t began_ns, ended_ns;
	/* bytes free on the device after the call, if it created the first context there; 0
	 * unknown */
	uint64_t free_after;
};

/* Device memory that the driver took for the calls of one call site: see struct
 * ledger_driver_cost. */
struct report_driver_cost {
	const char *cause; /* "context", "module", "stack limit" ... */
	const struct report_site *site; /* without a kind */
	uint64_t calls, measured;
	int64_t bytes; /* that the measured calls took */
	uint64_t ended; /* objects of these calls that have ended: their memory may be free */
};

/* One call of a struct report_driver_cost: see struct ledger_cost_call. */
struct report_cost_call {
	struct report_driver_cost *cost; /* NULL unknown */
	bool is_first_context; /* not in `measured` */
	uint64_t ended_ns, bytes;
};

/* Removes from the costs on device ORDINAL the calls for which the difference of free memory may be
 * another process's, or replaces the difference by NVML's figure for the process. Call it before
 * report_process_set_driver_memory(). */
void report_process_judge_costs(struct report_process *process, int ordinal,
				const struct cost_verdicts *verdicts);

/* Returns true if a call that may have taken memory of device ORDINAL ended after the last sample
 * of SERIES: then NVML has not counted what it took. */
bool driver_memory_is_behind(const struct report_process *process, int ordinal,
			     const struct driver_memory_series *series);

/* Returns how much of the driver's own memory on device ORDINAL the costs explain: the bytes of all
 * costs whose objects still exist and, if primary contexts ended, those of one of them. It may be
 * more than NVML shows for the process: a context of an H200 takes 527 MiB of the device, of which
 * NVML counts 518 MiB. */
uint64_t driver_memory_explained(const struct report_process *process, int ordinal);

struct report_device {
	int ordinal;
	const char *name;   /* NULL unknown, also for uuid and bus_id */
	const char *uuid;   /* "GPU-01234567-89ab-cdef-0123-456789abcdef" */
	const char *bus_id; /* "0000:01:00.0" */
	bool shares_memory; /* with the CPU */
	const struct driver_memory_series *series; /* NULL: no sample was taken */
	/* The first of the calls during the largest growth, and the number of these calls. */
	const struct report_driver_call *growth_call;
	size_t growth_call_count;
	bool growth_calls_lost; /* the ledger had no room for more calls at that time */
};

/* Returns true if device ORDINAL is known to share its memory with the CPU. */
bool report_shares_memory(const struct report_process *process, int ordinal);

/* Copies the samples of device ORDINAL to PROCESS and finds the calls that explain their growth.
 * Adds to the costs what the first context took: the memory that was free before the process began
 * and was not free after the call. Does nothing if the ledger does not have the device or SERIES
 * has no sample. */
void report_process_set_driver_memory(struct report_process *process, int ordinal,
				      const struct driver_memory_series *series);
