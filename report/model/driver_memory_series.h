/* SPDX-License-Identifier: MIT
 *
 * One series of samples per device: the memory that the driver reports for a process, and the
 * memory that its ledger tracks. Owns which kinds count as tracked and which samples are kept.
 * Must not query the driver, and must not print.
 */
#ifndef GPULEAK_REPORT_DRIVER_MEMORY_SERIES_H
#define GPULEAK_REPORT_DRIVER_MEMORY_SERIES_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/reader.h"

#define DRIVER_MEMORY_DEVICES 64  /* larger device ordinals are ignored */
#define DRIVER_MEMORY_SAMPLES 128 /* a full series drops every second sample */

enum driver_memory_source {
	DRIVER_MEMORY_NVML_PROCESS, /* figure of NVML for the process */
	DRIVER_MEMORY_NVML_DEVICE,  /* usage of the whole device, minus its usage at the start */
};

struct driver_memory_sample {
	uint64_t at_ns;   /* since the ledger's start */
	uint64_t tracked; /* live bytes of device memory, managed ones included */
	uint64_t managed;
	uint64_t held;    /* bytes that the driver reports */
};

/* Between two samples the driver's own memory grew by BYTES. */
struct driver_memory_growth {
	uint64_t from_ns, to_ns;
	uint64_t bytes;
};

struct driver_memory_series {
	enum driver_memory_source source;
	uint64_t taken;             /* samples, those thinned out included */
	uint64_t every;             /* one of so many is kept */
	uint64_t steady_taken;
	uint64_t peak_held;
	/* The latest one at which most was held: of the steady ones, if there are any. */
	struct driver_memory_sample highest;
	struct driver_memory_sample last;
	struct driver_memory_sample steady; /* the last one that a growth may be counted from */
	struct driver_memory_growth growth; /* the largest */
	uint32_t count;
	struct driver_memory_sample samples[DRIVER_MEMORY_SAMPLES];
};

/* Live bytes by device. */
struct tracked_memory {
	uint64_t bytes[DRIVER_MEMORY_DEVICES];
	uint64_t managed[DRIVER_MEMORY_DEVICES]; /* of them */
};

/* Sums up the blocks that VIEW tracks on each device. Reads each block once. */
void track_memory(const struct ledger_view *view, struct tracked_memory *ret);

/* A series starts as { source } before the process's first GPU call, when the process had no
 * memory. STEADY: nothing was allocated or freed while the driver was queried, so the difference of
 * the two numbers is the driver's own memory. */
void driver_memory_series_add(struct driver_memory_series *series,
			      const struct driver_memory_sample *sample, int steady);

/* Returns the least that the driver's own memory can be; 0 if more is tracked than reported. */
static inline uint64_t driver_part(const struct driver_memory_sample *sample)
{
	return sample->held > sample->tracked ? sample->held - sample->tracked : 0;
}

/* Returns the most that the driver's own memory can be: managed memory may be on the host. */
static inline uint64_t driver_part_at_most(const struct driver_memory_sample *sample)
{
	uint64_t surely = sample->tracked - sample->managed;

	return sample->held > surely ? sample->held - surely : 0;
}

#endif
