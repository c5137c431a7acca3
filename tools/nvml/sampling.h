/* SPDX-License-Identifier: MIT
 *
 * The main function of the sampler process, and the memory that it shares with the command. Only
 * the sampler writes to this memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "report/model/model_driver_memory.h"

#define SAMPLER_ENTRIES 256 /* one per process and device; further ones are not sampled */

struct sampler_entry {
	int pid;
	int ordinal;
	/* together with the pid: which program of which process (CLOCK_REALTIME of its first GPU
	 * call) */
	uint64_t start_real_ns;
	struct driver_memory_series series;
	struct cost_verdicts costs; /* only if the ledgers are sampled repeatedly */
};

enum sampler_nvml { /* state of NVML in the sampler process */
	SAMPLER_BEGAN,   /* its first NVML call has not returned */
	SAMPLER_ABSENT,  /* the NVML library does not exist */
	SAMPLER_DUMB,    /* NVML returns no usable data */
	SAMPLER_ANSWERS,
	SAMPLER_NO_FIGURES, /* NVML has no memory figures for a device that a process uses */
};

struct sampler_shared {
	uint32_t nvml;    /* enum sampler_nvml */
	uint32_t count;   /* entries in use; release/acquire */
	uint64_t process_bytes; /* of struct sampling's `process`; release/acquire */
	uint32_t changes; /* odd while the sampler changes an entry */
	struct sampler_entry entries[SAMPLER_ENTRIES];
};

struct sampling {
	const char *directory; /* sample the ledgers in this directory repeatedly; or NULL */
	const char *const *paths; /* sample these ledgers once */
	size_t path_count;
	int process; /* pid: only add up the memory of this process; 0: none */
	struct sampler_shared *shared;
	int link; /* pipe or socket: sampling ends when the other end is closed */
	pid_t parent;
};

/* Runs the sampler in this process; never returns. */
__attribute__((noreturn)) void sampling_main(const struct sampling *sampling);
