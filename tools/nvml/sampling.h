/* SPDX-License-Identifier: MIT
 *
 * The main function of the sampler's process, and the memory that it shares with the command.
 */
#ifndef GPULEAK_TOOLS_SAMPLING_H
#define GPULEAK_TOOLS_SAMPLING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "report/model/model_driver_memory.h"

#define SAMPLER_ENTRIES 256 /* a process and device each; further ones have no figure */

struct sampler_entry {
	int pid;
	int ordinal;
	uint64_t start_real_ns; /* with the pid: which image of which process */
	struct driver_memory_series series;
};

enum sampler_nvml { /* how far it came with NVML */
	SAMPLER_BEGAN,   /* not beyond its first call */
	SAMPLER_ABSENT,  /* there is no library */
	SAMPLER_DUMB,    /* it has no answer */
	SAMPLER_ANSWERS,
};

struct sampler_shared {
	uint32_t nvml;    /* enum sampler_nvml */
	uint32_t count;   /* release/acquire */
	uint32_t changes; /* odd: an entry is being changed */
	struct sampler_entry entries[SAMPLER_ENTRIES];
};

struct sampling {
	const char *directory; /* sample what is in there, again and again; or NULL */
	const char *const *paths; /* sample these once */
	size_t path_count;
	struct sampler_shared *shared;
	int link; /* when the other end is shut, sampling is over */
	pid_t parent;
};

/* Becomes the sampler; never returns. */
__attribute__((noreturn)) void sampling_main(const struct sampling *sampling);

#endif
