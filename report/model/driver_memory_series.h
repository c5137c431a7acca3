/* SPDX-License-Identifier: MIT
 *
 * One series of samples per device: the memory that the driver reports for a process, and the
 * memory that its ledger tracks. Decides which kinds count as tracked and which samples are
 * stored. Must not query the driver or print. Not thread-safe. Sizes are in bytes, times in
 * nanoseconds.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/reader.h"

#define DRIVER_MEMORY_DEVICES 64  /* devices with larger ordinals are ignored */
#define DRIVER_MEMORY_NEAR 8      /* samples taken because an allocation was refused */
#define DRIVER_MEMORY_SAMPLES 128 /* a full series removes every second sample */

enum driver_memory_source {
	DRIVER_MEMORY_NVML_PROCESS, /* memory that NVML reports for the process */
	/* memory in use on the whole device, minus its value before the process started */
	DRIVER_MEMORY_NVML_DEVICE,
};

struct driver_memory_sample {
	uint64_t at_ns;   /* since the ledger's start */
	uint64_t tracked; /* live bytes of device memory, including managed memory */
	uint64_t managed;  /* the part of `tracked` that is managed memory */
	uint64_t reported; /* what the driver reports as the memory of the process */
	uint64_t device_used; /* what it reports as in use on the device; 0 unknown */
};

/* Growth of the driver's own memory between two samples. */
struct driver_memory_growth {
	uint64_t from_ns, to_ns;
	uint64_t bytes;
};

struct driver_memory_series {
	enum driver_memory_source source;
	uint64_t taken;             /* number of samples, including removed ones */
	uint64_t every;             /* one of every so many samples is stored */
	uint64_t steady_taken;      /* number of accepted steady samples, see below */
	uint64_t peak_reported;
	/* Bytes of the device that were free before this process used it. 0: unknown, or another
	 * process of the run had used the device before. */
	uint64_t free_before;
	/* The last sample with the highest `reported`. If there are steady samples, only they
	 * count. */
	struct driver_memory_sample highest;
	struct driver_memory_sample last;
	/* the last steady sample: growth is computed between two consecutive steady samples */
	struct driver_memory_sample steady;
	/* The newest steady sample, which is not accepted yet. A call that has not returned may
	 * have allocated memory that is not tracked yet. Then the driver's own part is smaller in
	 * the next steady sample, and this sample is dropped. */
	struct driver_memory_sample newest;
	bool has_newest;
	struct driver_memory_growth growth; /* the largest growth */
	/* The first sample after each refused allocation. The first half of `near` has the oldest
	 * ones, the second half is a ring with the newest ones. near_count counts all of them.
	 * `refused` is the number of refused allocations at the last of these samples. */
	uint64_t refused;
	uint32_t near_count;
	struct driver_memory_sample near[DRIVER_MEMORY_NEAR];
	uint32_t count;
	struct driver_memory_sample samples[DRIVER_MEMORY_SAMPLES];
};

/* Live bytes per device. */
struct tracked_memory {
	uint64_t bytes[DRIVER_MEMORY_DEVICES];
	uint64_t managed[DRIVER_MEMORY_DEVICES]; /* the part of `bytes` that is managed memory */
};

/* Sums up the live blocks of VIEW per device. Reads each block once. */
void track_memory(const struct ledger_view *view, struct tracked_memory *ret);

/* Adds a sample. SERIES starts as { source } before the process's first GPU call: the process has
 * no GPU memory then. STEADY: nothing was allocated or freed during the query, so `tracked` and
 * `reported` are values of the same moment. */
void driver_memory_series_add(struct driver_memory_series *series,
			      const struct driver_memory_sample *sample, bool steady);

/* Ends the series: accepts the newest steady sample, unless the driver's own part is much larger in
 * it than in the accepted sample before it. */
void driver_memory_series_end(struct driver_memory_series *series);

/* Stores SAMPLE in `near` if an allocation was refused since the last call. REFUSED is the number
 * of refused allocations so far. Call it after driver_memory_series_add(). */
void driver_memory_series_near(struct driver_memory_series *series,
			       const struct driver_memory_sample *sample, uint64_t refused);

/* ---- what single calls took (struct ledger_cost_call) ---- */

enum cost_verdict {
	COST_PENDING = 0, /* no sample was taken after the call */
	COST_ALONE,       /* other processes had the same memory before and after the call */
	COST_OF_PROCESS,  /* they had not; `bytes` is what NVML counts for the process */
	COST_DISTURBED,   /* they had not, and it is not known what the call took */
};

/* The verdicts of the calls on one device, in the order of the ledger. */
struct cost_verdicts {
	bool disturbed; /* other processes' memory changed, or was unknown, at some time */
	struct {
		uint32_t verdict;
		uint64_t bytes;
	} call[LEDGER_COST_CALLS_MAX];
};

/* A query of NVML. Times are as in the ledger. */
struct cost_sample {
	uint64_t began_ns, ended_ns;
	bool known; /* NVML lists the processes of the device, and their bytes */
	uint64_t others; /* bytes of the other processes */
	uint64_t part; /* the driver's own part of the memory of the process */
	bool steady; /* nothing was allocated or freed during the query */
};

/* The samples so far. Starts with the last sample before the process began, or all zero. */
struct cost_judge {
	struct cost_sample last;
	uint64_t since_ns; /* end of the first of the samples in a row that show last.others */
};

/* Stores the verdicts of all calls on device ORDINAL that ended before SAMPLE and have none. A call
 * is alone if all samples from the last one before it to the first one after it show the same bytes
 * of other processes. */
void cost_judge_sample(struct cost_judge *judge, const struct ledger_view *view, int ordinal,
		       const struct cost_sample *sample, struct cost_verdicts *verdicts);

/* NVML counts up to so many bytes as used on a device, but not as used by a process: 8.8 MiB per
 * context on an H200. */
#define DRIVER_MEMORY_NOBODYS ((uint64_t)16 << 20)

/* Returns what other processes have on the device, as far as the driver reports it. Returns 0 if it
 * may also be memory of no process. */
static inline uint64_t others_part(const struct driver_memory_sample *sample)
{
	uint64_t others = sample->device_used > sample->reported
				  ? sample->device_used - sample->reported : 0;

	return others > DRIVER_MEMORY_NOBODYS ? others : 0;
}

/* Returns the lower bound of the driver's own memory; 0 if more memory is tracked than the driver
 * reports. */
static inline uint64_t driver_part(const struct driver_memory_sample *sample)
{
	return sample->reported > sample->tracked ? sample->reported - sample->tracked : 0;
}

/* Returns the upper bound of the driver's own memory. It assumes that all managed memory is on the
 * host, so that none of it is part of `reported`. */
static inline uint64_t driver_part_at_most(const struct driver_memory_sample *sample)
{
	uint64_t surely = sample->tracked - sample->managed;

	return sample->reported > surely ? sample->reported - surely : 0;
}
