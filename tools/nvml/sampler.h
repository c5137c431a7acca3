/* SPDX-License-Identifier: MIT
 *
 * Samples the device memory of running processes in a separate process. If a driver call hangs,
 * only that process hangs. The samples are in shared memory. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct report_process;
struct sampler_shared;

struct sampler { /* starts as { 0 }: nothing is sampled */
	pid_t pid;   /* pid of the sampler process; 0: it does not run */
	/* connection to the sampler: each process notices when the other one closes it */
	int link;
	bool forever; /* sampling repeats until sampler_finish() */
	struct sampler_shared *shared;
};

/* Starts to sample every process with a ledger in DIRECTORY repeatedly, until sampler_finish().
 * Costs the caller only a fork. Returns 0 or -errno. */
int sampler_start(struct sampler *sampler, const char *directory);

/* Starts to sample the running processes of the COUNT ledgers at PATHS once. Returns 0 or -errno.
 * */
int sampler_start_once(struct sampler *sampler, const char *const *paths, size_t count);

/* Returns the device memory of process PID by NVML, in bytes; 0 if NVML has no figure for it. Takes
 * a second at most. */
uint64_t sampler_of_process(int pid);

/* Ends repeated sampling, or waits at most WAIT_MS milliseconds for a single sample. May be called
 * again. */
void sampler_finish(struct sampler *sampler, int wait_ms);

/* Copies the samples of PROCESS into it. Call it after sampler_finish(). */
void sampler_attach(const struct sampler *sampler, struct report_process *process);
