/* SPDX-License-Identifier: MIT
 *
 * How much device memory a process was said to hold, against what its ledger tracks: one
 * series of samples a device. Owns what counts as tracked and what is remembered of a
 * series; asks nobody and prints nothing.
 */
#ifndef GPULEAK_REPORT_DRIVER_MEMORY_SERIES_H
#define GPULEAK_REPORT_DRIVER_MEMORY_SERIES_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/reader.h"

#define DRIVER_MEMORY_DEVICES 64  /* ordinals that are looked at */
#define DRIVER_MEMORY_SAMPLES 128 /* when a series is full every second sample goes */

enum driver_memory_source {
	DRIVER_MEMORY_NVML_PROCESS, /* what NVML says of the process */
	DRIVER_MEMORY_NVML_DEVICE,  /* what is in use on the whole device, less what was before */
};

struct driver_memory_sample {
	uint64_t at_ns;   /* since the ledger's start */
	uint64_t tracked; /* live bytes of device memory, managed ones included */
	uint64_t managed;
	uint64_t held;    /* what the driver says */
};

/* From one sample to the next the driver's own part grew by BYTES. */
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

/* What VIEW tracks on each device. Looks once at every block and reads nothing else. */
void track_memory(const struct ledger_view *view, struct tracked_memory *ret);

/* A series starts as { source } before the process's first GPU call, when it held nothing.
 * STEADY: nothing was allocated or freed while the driver was asked, so that the difference
 * between the two numbers is the driver's own part. */
void driver_memory_series_add(struct driver_memory_series *series,
			      const struct driver_memory_sample *sample, int steady);

/* The driver's own part: at least that much; 0 if more is tracked than held. */
static inline uint64_t driver_part(const struct driver_memory_sample *sample)
{
	return sample->held > sample->tracked ? sample->held - sample->tracked : 0;
}

/* At most that much: managed memory may lie elsewhere. */
static inline uint64_t driver_part_at_most(const struct driver_memory_sample *sample)
{
	uint64_t surely = sample->tracked - sample->managed;

	return sample->held > surely ? sample->held - surely : 0;
}

#endif
